//! The record of a run, an annotation of the agents' `ConfigMap`, which stays when the Job is deleted: so a command
//! that may have begun is not started a second time.
//!
//! After creating the Job the operator writes the record and, in the same write, the key of that run. The pods mount
//! this key by name, and no kubelet starts a container before the key exists. So without a record nothing has begun.

use super::job_ext::{is_suspended, noted_generation};
use flux_api::cluster::{Cluster, FixedFields, RUN_ID_ANNOTATION};
use flux_api::crd::{MiniClusterStatus, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

/// Annotation with the record. Older releases, which recorded only the end, use the same name.
pub(crate) const RECORD_ANNOTATION: &str = "flux-framework.org/ended-run";

/// Most bytes of a message in a record: annotations of an object may have 256 KiB in all.
const MESSAGE_LIMIT: usize = 2000;

/// A run that has begun, with its end if the operator saw it. Unknown fields of other releases are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunRecord {
    pub(crate) job: String,
    /// Generation of the specification that the Job had last.
    pub(crate) generation: i64,
    /// [`FixedFields::hash`] of that specification; absent if the Job has no annotation with the fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<String>,
    /// `spec.runId` with which the Job was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_id: Option<String>,
    /// When the run was recorded; after the end, when its Job was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    #[serde(flatten)]
    pub(crate) end: Option<RunEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunEnd {
    pub(crate) complete: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<Time>,
}

impl RunEnd {
    fn of(status: &MiniClusterStatus) -> Option<Self> {
        let condition = status.end()?;
        let end = condition.message.floor_char_boundary(MESSAGE_LIMIT);
        Some(Self {
            complete: status.state == Some(State::Complete),
            reason: condition.reason.clone(),
            message: condition.message[..end].to_owned(),
            exit_code: status.exit_code,
            completion_time: status.completion_time.clone(),
        })
    }
}

impl RunRecord {
    /// The record of the run of `job`, or, if the Job is gone, `recorded` with the end. `None` while the run cannot
    /// have begun, because the Job has always been suspended. `generation` is for a Job without a note of its own.
    pub(crate) fn of(
        job: Option<&Job>,
        recorded: Option<&Self>,
        status: &MiniClusterStatus,
        generation: i64,
        now: &Time,
    ) -> Option<Self> {
        let end = RunEnd::of(status);
        let Some(job) = job else {
            return recorded.filter(|_| end.is_some()).map(|run| Self { end, ..run.clone() });
        };
        let uid = job.uid().unwrap_or_default();
        let recorded = recorded.filter(|run| run.job == uid);
        if end.is_none() && recorded.is_none() && is_suspended(job) {
            return None;
        }
        let known = recorded.map(|run| run.generation);
        let start = || recorded.map_or_else(|| Some(now.clone()), |run| run.start_time.clone());
        let start_time = end.as_ref().map_or_else(start, |_| status.start_time.clone());
        let generation = noted_generation(job).or(known).unwrap_or(generation);
        let fields = FixedFields::noted_hash(job.annotations());
        let run_id = job.annotations().get(RUN_ID_ANNOTATION).cloned();
        Some(Self { job: uid, generation, fields, run_id, start_time, end })
    }

    /// True when the record has the end of the run of `job`.
    pub(crate) fn has_end_of(&self, job: &Job) -> bool {
        self.end.is_some() && Some(&self.job) == job.metadata.uid.as_ref()
    }

    pub(crate) fn on(config_map: &ConfigMap) -> Option<Self> {
        serde_json::from_str(config_map.annotations().get(RECORD_ANNOTATION)?).ok()
    }

    /// True when `cluster`, a specification of `generation`, would only repeat this run and does not ask for that.
    pub(crate) fn is_of(&self, generation: i64, cluster: &Cluster) -> bool {
        let is_same =
            self.generation == generation || self.fields == Some(cluster.fixed_fields.hash());
        is_same && !cluster.asks_for_run_after(self.run_id.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, job};
    use serde_json::json;

    #[test]
    fn records_of_other_releases_are_read() {
        let status = MiniClusterStatus::default();
        let of = |job: &Job, recorded: Option<&RunRecord>, second| {
            RunRecord::of(Some(job), recorded, &status, 3, &at(second))
        };
        let mut once = job(0);
        once.metadata.uid = Some("job-uid".to_owned());
        let mut suspended = once.clone();
        suspended.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(of(&suspended, None, 5), None);
        let run = of(&once, None, 5).unwrap();
        assert_eq!((run.generation, &run.start_time, &run.end), (1, &Some(at(5)), &None));
        assert_eq!(of(&suspended, Some(&run), 9), Some(run.clone()), "the run had begun");
        assert_eq!(of(&once, Some(&run), 9), Some(run.clone()), "the record is written once");
        let read = |text: &str| serde_json::from_str::<RunRecord>(text).unwrap();
        assert_eq!(read(&json!(run).to_string()), run);
        let old = r#"{"job":"job-uid","generation":1,"complete":true,"reason":"ShutDown","message":"","news":1}"#;
        assert!(read(old).has_end_of(&once) && !run.has_end_of(&once));
        // A Job of the Go operator has no generation annotation.
        once.annotations_mut().clear();
        let go = of(&once, None, 5).unwrap();
        assert_eq!((go.generation, of(&once, Some(&go), 9)), (3, Some(go.clone())));
    }
}
