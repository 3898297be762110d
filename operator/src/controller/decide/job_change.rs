//! Decides how an existing Job and an existing pod of `spec.services` follow a changed specification. A Job's pod
//! template cannot change; `completions` can, together with `parallelism` (KEP-3715, stable since 1.31).

use super::change::Change;
use crate::controller::job_ext::{
    LATE_START_ANNOTATION, QUORUM_ANNOTATION, counts_by_index, is_ending, is_suspended, noted_keys,
};
use crate::controller::observe::Observed;
use crate::controller::pod_ext::{end_of, has_failed};
use flux_api::cluster::{FixedFields, ServicesPod};
use flux_api::objects::{
    GENERATION_ANNOTATION, JOB_ANNOTATIONS_ANNOTATION, JOB_LABELS_ANNOTATION, KILLED,
    SUSPENDED_ANNOTATION,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The merge patch that brings the Job `live`, whose run has not ended, in line with `desired`; `None` if nothing
/// differs, or if the Job is being deleted. `in_line` is true when the Job can take the whole specification. The templates are not
/// compared: [`changed_fields`] reports edits of fields in the template, and a difference that comes from another
/// release of the operator must not touch a running Job.
pub(crate) fn job_patch(live: &Job, desired: &Job, in_line: bool) -> Option<Value> {
    if live.metadata.deletion_timestamp.is_some() {
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

/// Paths of the fields that were edited since the Job was created although they cannot change.
pub(crate) fn changed_fields(live: &Job, fields: &FixedFields) -> Vec<String> {
    let deleted = live.metadata.deletion_timestamp.is_some();
    if deleted { Vec::new() } else { fields.changed_since(live.annotations()) }
}

/// The operator's notes that differ, and the annotations that the MiniCluster gives now or gave before.
fn adjusted_annotations<'jobs>(
    live: &'jobs Job,
    desired: &'jobs Job,
) -> impl Iterator<Item = (&'jobs str, Value)> {
    const NOTES: [&str; 5] = [
        QUORUM_ANNOTATION,
        LATE_START_ANNOTATION,
        SUSPENDED_ANNOTATION,
        JOB_LABELS_ANNOTATION,
        JOB_ANNOTATIONS_ANNOTATION,
    ];
    let given =
        [live, desired].into_iter().flat_map(|job| noted_keys(job, JOB_ANNOTATIONS_ANNOTATION));
    changed(NOTES.into_iter().chain(given), live.annotations(), desired.annotations())
}

/// Labels that are missing or differ, or that the MiniCluster no longer gives. The other labels belong to others.
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

/// The changed fields of the Job's specification that may change at any time: size, deadline, backoff limit, and, if
/// the operator decides on it, whether it is suspended.
fn adjusted_spec(live: &Job, desired: &Job) -> Option<Value> {
    let (live, desired) = (live.spec.as_ref()?, desired.spec.as_ref()?);
    let mut spec = serde_json::Map::new();
    if live.parallelism != desired.parallelism || live.completions != desired.completions {
        // The API server refuses a change of one without the other.
        spec.insert("parallelism".to_owned(), json!(desired.parallelism));
        spec.insert("completions".to_owned(), json!(desired.completions));
    }
    if live.active_deadline_seconds != desired.active_deadline_seconds {
        spec.insert("activeDeadlineSeconds".to_owned(), json!(desired.active_deadline_seconds));
    }
    if desired.suspend.is_some_and(|suspend| suspend != live.suspend.unwrap_or_default()) {
        spec.insert("suspend".to_owned(), json!(desired.suspend));
    }
    // A Job with a backoff limit per index was started to run its command once.
    if live.backoff_limit != desired.backoff_limit && desired.backoff_limit_per_index.is_none() {
        spec.insert("backoffLimit".to_owned(), json!(desired.backoff_limit));
    }
    (!spec.is_empty()).then_some(Value::Object(spec))
}

/// Ends the Job of a failed run, whose end is recorded, if the Job would replace the lead because of its exit code: of a
/// run without the Job's failure policy, the number of failed pods decides. The pods stay.
pub(crate) fn end_of_job(live: &Observed) -> Change<Job> {
    let (Some(job), Some(lead)) = (&live.job, &live.pods.lead) else { return Change::Keep };
    let has_failed =
        live.lifecycle.is_recorded() && live.lifecycle.end().is_some_and(|it| !it.complete);
    let code = end_of(lead, &job.name_any()).map(|end| end.exit_code);
    let is_open = counts_by_index(job) && !is_ending(job) && !is_suspended(job);
    let is_done = job.spec.as_ref().is_some_and(|spec| spec.backoff_limit == Some(0));
    let is_replaced = code.is_some_and(|code| KILLED.contains(&code));
    if has_failed && is_open && is_replaced && !is_done {
        Change::merge(job, json!({ "spec": { "backoffLimit": 0 } }))
    } else {
        Change::Keep
    }
}

/// Lets Kubernetes delete the finished Job `live` with its pods (`ttlSecondsAfterFinished` of Jobs, which deletes in the
/// foreground).
pub(crate) fn expire(live: &Job) -> Change<Job> {
    Change::merge(live, json!({ "spec": { "ttlSecondsAfterFinished": 0 } }))
}

/// The change of the live pod of `spec.services`, and the fields that it cannot take: a pod cannot be changed, and a
/// replacement would interrupt the workload that uses it. A difference from another release is no change.
pub(crate) fn services_pod_change(
    live: Option<&Pod>,
    desired: Option<Pod>,
    asked: Option<&ServicesPod>,
) -> (Change<Pod>, Vec<String>) {
    let Some(live) = live else {
        let change = desired.map_or(Change::Keep, |pod| Change::Create(Box::new(pod)));
        return (change, Vec::new());
    };
    // The watch brings its deletion, and the next reconcile creates a new pod.
    if live.metadata.deletion_timestamp.is_some() {
        return (Change::Keep, Vec::new());
    }
    // Only an eviction or a lost node makes this pod fail; the next reconcile creates it again.
    if has_failed(live) {
        return (Change::delete(live), Vec::new());
    }
    let refused = asked.map_or_else(
        || vec!["spec.services".to_owned()],
        |asked| asked.fixed_fields.changed_since(live.annotations()),
    );
    (Change::Keep, refused)
}
