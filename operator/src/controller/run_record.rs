//! The record of a run, an annotation of the agents' `ConfigMap`, which stays when the Job is deleted: so a command
//! that may have begun is not started a second time.
//!
//! After creating the Job the operator writes the record and, in the same write, the key of that run. The pods mount
//! this key by name, and no kubelet starts a container before the key exists. So without a record nothing has begun.

use super::job_ext::{counts_by_index, is_finished, is_own, is_suspended, noted_generation};
use super::pod_ext::end_of;
use flux_api::cluster::FixedFields;
use flux_api::crd::{MiniClusterStatus, State};
use flux_api::objects::is_replaced;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

/// Annotation with the record. Older releases, which recorded only the end, use the same name.
pub(crate) const RECORD_ANNOTATION: &str = "flux-framework.org/ended-run";

/// True when the run of `job` has ended for good, even if the Job controller has not set a condition yet.
pub(crate) fn has_ended(job: &Job, lead: Option<&Pod>) -> bool {
    is_finished(job) || lead.is_some_and(|lead| end_by_lead(job, lead).is_some())
}

/// The end of a run as the lead's pod shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeadEnd {
    pub(crate) at: Time,
    pub(crate) complete: bool,
}

/// The end of the run of `job` as the pod `lead` shows it, once it is certain: success by the Job's success policy,
/// or failure by its failure policy with an exit code for which no pod is replaced. All containers of the Job's
/// template must have ended; containers that others have added do not count.
pub(crate) fn end_by_lead(job: &Job, lead: &Pod) -> Option<LeadEnd> {
    if is_suspended(job) || lead.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let all = lead.status.as_ref()?.container_statuses.as_deref()?;
    let end = end_of(lead, &job.name_any())?;
    let code = |container: &ContainerStatus| {
        Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
    };
    let own = all.iter().filter(|container| is_own(job, &container.name));
    let codes: Vec<i32> = own.map(code).collect::<Option<_>>()?;
    let complete = codes.iter().all(|code| *code == 0);
    let failed = end.exit_code != 0 && counts_by_index(job) && !is_replaced(end.exit_code);
    let at = end.finished_at.clone().filter(|_| complete || failed)?;
    Some(LeadEnd { at, complete })
}

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
        Some(Self { job: uid, generation, fields, start_time, end })
    }

    /// True when the record has the end of the run of `job`.
    pub(crate) fn has_end_of(&self, job: &Job) -> bool {
        self.end.is_some() && Some(&self.job) == job.metadata.uid.as_ref()
    }

    pub(crate) fn on(config_map: &ConfigMap) -> Option<Self> {
        serde_json::from_str(config_map.annotations().get(RECORD_ANNOTATION)?).ok()
    }

    /// True when a specification of `generation` would run the same as this run.
    pub(crate) fn is_of(&self, generation: i64, fields: &FixedFields) -> bool {
        self.generation == generation || self.fields == Some(fields.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended, job, pod};
    use serde_json::json;

    #[test]
    fn a_lead_ends_the_run_with_its_own_containers() {
        let end = |code: i32| {
            let mut state = ended(code, "Error", None);
            state.terminated.as_mut().unwrap().finished_at = Some(at(190));
            pod("hello-0", "Running", "hello", state)
        };
        let mut once = job(2);
        once.spec.as_mut().unwrap().backoff_limit_per_index = Some(6);
        for (job, code, ends) in
            [(&once, 0, true), (&once, 7, true), (&once, 137, false), (&job(2), 7, false)]
        {
            let found = end_by_lead(job, &end(code));
            let expected = ends.then(|| LeadEnd { at: at(190), complete: code == 0 });
            assert_eq!(found, expected, "{code}");
        }
        let mut suspended = once.clone();
        suspended.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(end_by_lead(&suspended, &end(7)), None);
        let mut deleted = end(7);
        deleted.metadata.deletion_timestamp = Some(at(191));
        assert_eq!(end_by_lead(&once, &deleted), None);
        // A container of the Job's template still runs, or one that a webhook has added.
        let template = json!({ "containers": [{ "name": "hello" }, { "name": "web" }] });
        once.spec.as_mut().unwrap().template.spec = serde_json::from_value(template).unwrap();
        for (name, code, ends) in [
            ("web", None, false),
            ("web", Some(0), true),
            ("proxy", None, true),
            ("proxy", Some(1), true),
        ] {
            let mut beside = end(0);
            let containers = beside.status.as_mut().unwrap().container_statuses.as_mut().unwrap();
            let state = code.map(|code| ended(code, "Error", None));
            let other =
                ContainerStatus { name: name.to_owned(), state, ..ContainerStatus::default() };
            containers.insert(0, other);
            let found = end_by_lead(&once, &beside).map(|end| end.complete);
            assert_eq!(found, ends.then_some(true), "{name} {code:?}");
        }
    }

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
