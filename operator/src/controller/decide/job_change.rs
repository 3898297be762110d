//! What a changed specification means for a Job that exists.
//!
//! A Job's pod template can never be changed. `completions` of an Indexed Job can, together with
//! `parallelism` (KEP-3715, stable since 1.31).

use crate::cluster::FixedFields;
use crate::controller::kube_ext::{
    CAUSE_ANNOTATION, GENERATION_ANNOTATION, JOB_ANNOTATIONS_ANNOTATION, JOB_LABELS_ANNOTATION,
    RAN_ANNOTATION, SUSPENDED_ANNOTATION, is_finished, noted_keys,
};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is merged into the Job there is, so that it says what the one does that would be built now;
/// `None` where it does, has ended or is being deleted. `in_line`: all that was asked for can be had. The two
/// templates are not compared: [`changed_fields`] names what the user cannot change, and what another
/// release of the operator builds otherwise is no reason to touch a running Job.
pub(crate) fn job_patch(live: &Job, desired: &Job, in_line: bool) -> Option<Value> {
    if !is_under_way(live) {
        return None;
    }
    let mut patch = json!({});
    let generation = desired.annotations().get(GENERATION_ANNOTATION);
    if in_line && live.annotations().get(GENERATION_ANNOTATION) != generation {
        patch["metadata"] = json!({ "annotations": { GENERATION_ANNOTATION: generation } });
    }
    for (key, value) in adjusted_annotations(live, desired) {
        patch["metadata"]["annotations"][key] = value;
    }
    for (key, value) in adjusted_labels(live, desired) {
        patch["metadata"]["labels"][key] = value;
    }
    if let Some(spec) = adjusted_spec(live, desired) {
        patch["spec"] = spec;
    }
    (patch != json!({})).then_some(patch)
}

/// What a smaller size takes away: from how many pods to how many.
pub(crate) fn shrinks(live: &Job, patch: &Value) -> Option<(i64, i64)> {
    let size = live.spec.as_ref()?.parallelism?;
    let next = patch["spec"]["parallelism"].as_i64()?;
    (next < size.into()).then_some((size.into(), next))
}

/// Paths of the fields that were changed since the Job was made and cannot be while it exists, nor
/// after its end.
pub(crate) fn changed_fields(live: &Job, fields: &FixedFields) -> Vec<String> {
    let deleted = live.metadata.deletion_timestamp.is_some();
    if deleted { Vec::new() } else { fields.changed_since(live.annotations()) }
}

fn is_under_way(job: &Job) -> bool {
    job.metadata.deletion_timestamp.is_none() && !is_finished(job)
}

/// Notes that the Job should not have, or others, and the annotations that the MiniCluster gives now or gave once.
fn adjusted_annotations<'jobs>(
    live: &'jobs Job,
    desired: &'jobs Job,
) -> impl Iterator<Item = (&'jobs str, Value)> {
    const NOTES: [&str; 5] = [
        RAN_ANNOTATION,
        CAUSE_ANNOTATION,
        SUSPENDED_ANNOTATION,
        JOB_LABELS_ANNOTATION,
        JOB_ANNOTATIONS_ANNOTATION,
    ];
    let given =
        [live, desired].into_iter().flat_map(|job| noted_keys(job, JOB_ANNOTATIONS_ANNOTATION));
    changed(NOTES.into_iter().chain(given), live.annotations(), desired.annotations())
}

/// Labels that are missing or other, and those that the MiniCluster gave once and gives no more. Whatever else is on
/// the Job is somebody else's.
fn adjusted_labels<'jobs>(
    live: &'jobs Job,
    desired: &'jobs Job,
) -> impl Iterator<Item = (&'jobs str, Value)> {
    let wanted = desired.labels().keys().map(String::as_str);
    changed(wanted.chain(noted_keys(live, JOB_LABELS_ANNOTATION)), live.labels(), desired.labels())
}

fn changed<'jobs>(
    keys: impl Iterator<Item = &'jobs str>,
    has: &'jobs BTreeMap<String, String>,
    wants: &'jobs BTreeMap<String, String>,
) -> impl Iterator<Item = (&'jobs str, Value)> {
    let other = keys.filter(|key| has.get(*key) != wants.get(*key));
    other.map(|key| (key, json!(wants.get(key))))
}

/// The part of the specification that may differ at any time and does: size, deadline, backoff limit, and whether
/// it is suspended, where that is ours to say.
fn adjusted_spec(live: &Job, desired: &Job) -> Option<Value> {
    let (live, desired) = (live.spec.as_ref()?, desired.spec.as_ref()?);
    let mut spec = serde_json::Map::new();
    if live.parallelism != desired.parallelism || live.completions != desired.completions {
        // Both in one patch: the API server refuses one without the other.
        spec.insert("parallelism".to_owned(), json!(desired.parallelism));
        spec.insert("completions".to_owned(), json!(desired.completions));
    }
    if live.active_deadline_seconds != desired.active_deadline_seconds {
        spec.insert("activeDeadlineSeconds".to_owned(), json!(desired.active_deadline_seconds));
    }
    if desired.suspend.is_some_and(|suspend| suspend != live.suspend.unwrap_or_default()) {
        spec.insert("suspend".to_owned(), json!(desired.suspend));
    }
    // A Job that counts by index was started to run its command once.
    if live.backoff_limit != desired.backoff_limit && desired.backoff_limit_per_index.is_none() {
        spec.insert("backoffLimit".to_owned(), json!(desired.backoff_limit));
    }
    (!spec.is_empty()).then_some(Value::Object(spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, built, cluster, ended_job};

    /// The Job of generation `generation` with `size` pods.
    fn job(generation: i64, size: i32) -> Job {
        built(&cluster(&json!({ "size": size })), generation).job
    }

    fn fields(image: &str) -> FixedFields {
        cluster(&json!({ "containers": [{ "image": image, "command": "echo hello" }] }))
            .fixed_fields
    }

    #[test]
    fn labels_follow_and_those_of_others_stay() {
        let with = |labels: Value| built(&cluster(&json!({ "jobLabels": labels })), 1).job;
        let mut live = with(json!({ "team": "physics", "old": "1" }));
        live.labels_mut().insert("kueue.x-k8s.io/managed".to_owned(), "true".to_owned());
        let change = job_patch(&live, &with(json!({ "team": "chemistry" })), true);
        let patch = json!({ "metadata": {
            "labels": { "team": "chemistry", "old": null },
            "annotations": { JOB_LABELS_ANNOTATION: "team" },
        } });
        assert_eq!(change, Some(patch));
        let same = with(json!({ "team": "physics", "old": "1" }));
        assert_eq!(job_patch(&live, &same, true), None);
    }

    #[test]
    fn annotations_for_a_queue_follow_and_those_of_others_stay() {
        let with = |key: &str| {
            let mut cluster = cluster(&json!({}));
            cluster.job_annotations = [(key.to_owned(), "1".to_owned())].into();
            built(&cluster, 1).job
        };
        let mut live = with("kueue.x-k8s.io/a");
        live.annotations_mut().insert("kueue.x-k8s.io/stopping".to_owned(), "true".to_owned());
        assert_eq!(job_patch(&live, &with("kueue.x-k8s.io/a"), true), None);
        let patch = json!({ "metadata": { "annotations": {
            "kueue.x-k8s.io/a": null, "kueue.x-k8s.io/b": "1",
            JOB_ANNOTATIONS_ANNOTATION: "kueue.x-k8s.io/b",
        } } });
        assert_eq!(job_patch(&live, &with("kueue.x-k8s.io/b"), true), Some(patch));
    }

    #[test]
    fn a_job_that_has_ended_or_is_being_deleted_is_kept_whatever_the_specification_says() {
        let mut finished = job(1, 4);
        finished.status = ended_job("Failed", "BackoffLimitExceeded").status;
        let mut going = job(1, 4);
        going.metadata.deletion_timestamp = Some(at(1));
        for live in [&finished, &going] {
            assert_eq!(job_patch(live, &job(2, 2), true), None);
        }
        assert_eq!(changed_fields(&finished, &fields("b")), ["spec.containers[0].image"]);
        assert_eq!(changed_fields(&going, &fields("b")), [""; 0]);
    }
}
