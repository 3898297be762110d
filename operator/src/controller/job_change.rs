//! What a changed specification means for a Job that exists.
//!
//! A Job's pod template can never be changed. `completions` of an Indexed Job can, together with
//! `parallelism` (KEP-3715, stable since 1.31).

use crate::cluster::FixedFields;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Annotation of the Job: generation of the MiniCluster it was last brought in line with.
pub const GENERATION_ANNOTATION: &str = "flux-framework.org/generation";

/// What to do with the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// There is none yet.
    Create,
    /// Leave it alone.
    Keep,
    /// Change what may be changed, by a merge patch.
    Adjust(Value),
}

/// Decides from the Job there is and the one that would be built now; `refused`: something that was
/// asked for cannot be had, so that the Job is not in line with the present generation.
///
/// The two templates are not compared: what the user cannot change is told by [`changed_fields`],
/// and what another release of the operator builds otherwise is no reason to touch a running Job.
pub fn job_change(live: Option<&Job>, desired: &Job, refused: bool) -> JobChange {
    let Some(live) = live else { return JobChange::Create };
    if !is_under_way(live) {
        return JobChange::Keep;
    }
    let mut patch = json!({});
    let generation = desired.annotations().get(GENERATION_ANNOTATION);
    if !refused && live.annotations().get(GENERATION_ANNOTATION) != generation {
        patch["metadata"] = json!({ "annotations": { GENERATION_ANNOTATION: generation } });
    }
    if let Some(spec) = adjusted_spec(live, desired) {
        patch["spec"] = spec;
    }
    if patch == json!({}) { JobChange::Keep } else { JobChange::Adjust(patch) }
}

/// Paths of the fields that were changed since the Job was made and cannot be while it exists.
pub fn changed_fields(live: &Job, fields: &FixedFields) -> Vec<String> {
    if is_under_way(live) { fields.changed_since(live.annotations()) } else { Vec::new() }
}

/// True once the Job has ended, well or not.
pub fn is_finished(job: &Job) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|condition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Complete" | "Failed")
    })
}

/// True while the Job has not ended and nobody deletes it.
fn is_under_way(job: &Job) -> bool {
    job.metadata.deletion_timestamp.is_none() && !is_finished(job)
}

/// The part of the specification that may differ at any time and does: size, deadline, backoff limit.
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
    if live.backoff_limit != desired.backoff_limit {
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
    fn a_missing_job_is_created() {
        assert_eq!(job_change(None, &job(1, 4), false), JobChange::Create);
    }

    #[test]
    fn an_unchanged_job_is_kept() {
        assert_eq!(job_change(Some(&job(1, 4)), &job(1, 4), false), JobChange::Keep);
        assert_eq!(changed_fields(&job(1, 4), &fields("app")), [""; 0]);
    }

    #[test]
    fn another_size_changes_parallelism_and_completions_together() {
        let change = job_change(Some(&job(1, 4)), &job(2, 2), false);
        let patch = json!({
            "metadata": { "annotations": { GENERATION_ANNOTATION: "2" } },
            "spec": { "parallelism": 2, "completions": 2 },
        });
        assert_eq!(change, JobChange::Adjust(patch));
    }

    #[test]
    fn a_job_that_lacks_what_was_asked_for_does_not_get_the_generation() {
        let change = job_change(Some(&job(1, 4)), &job(2, 3), true);
        let patch = json!({ "spec": { "parallelism": 3, "completions": 3 } });
        assert_eq!(change, JobChange::Adjust(patch));
        assert_eq!(job_change(Some(&job(1, 4)), &job(2, 4), true), JobChange::Keep);
    }

    #[test]
    fn another_image_is_named() {
        assert_eq!(changed_fields(&job(1, 4), &fields("b")), ["spec.containers[0].image"]);
    }

    #[test]
    fn a_job_that_has_ended_or_is_being_deleted_is_kept_whatever_the_specification_says() {
        let mut finished = job(1, 4);
        finished.status = ended_job("Failed", "BackoffLimitExceeded").status;
        let mut going = job(1, 4);
        going.metadata.deletion_timestamp = Some(at(1));
        for live in [finished, going] {
            assert_eq!(job_change(Some(&live), &job(2, 2), false), JobChange::Keep);
            assert_eq!(changed_fields(&live, &fields("b")), [""; 0]);
        }
    }
}
