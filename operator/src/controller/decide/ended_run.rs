//! The note of a run that has ended, kept on the `ConfigMap` of the agents, which stays when the Job
//! is deleted: what was run is not run again because somebody tidied up. And how long a MiniCluster stays then.

use super::change::Change;
use crate::cluster::{FixedFields, Identity};
use crate::controller::build::{is_replaced, meta_of};
use crate::controller::kube_ext::{
    counts_by_index, end_of, is_finished, is_suspended, noted_generation,
};
use crate::crd::{MiniClusterSpec, MiniClusterStatus, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const ENDED_RUN_ANNOTATION: &str = "flux-framework.org/ended-run";

/// True when the run of `job` has ended for good, be it that the Job controller has yet to say so.
pub(crate) fn has_ended(job: &Job, lead: Option<&Pod>) -> bool {
    is_finished(job) || lead.is_some_and(|lead| end_by_lead(job, lead).is_some())
}

/// When the pod `lead` has ended the run of `job`, where that is certain: the Job controller says the same up to two
/// seconds later. Success is certain by the Job's success policy; failure by its failure policy, where it replaces no
/// pod with this exit code. All containers of the pod have ended: before that, how the pod ends is open.
pub(crate) fn end_by_lead(job: &Job, lead: &Pod) -> Option<Time> {
    if is_suspended(job) || lead.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let all = lead.status.as_ref()?.container_statuses.as_deref()?;
    let end = end_of(lead, &job.name_any())?;
    let code = |container: &ContainerStatus| {
        Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
    };
    let codes: Vec<i32> = all.iter().map(code).collect::<Option<_>>()?;
    let complete = codes.iter().all(|code| *code == 0);
    let failed = end.exit_code != 0 && counts_by_index(job) && !is_replaced(end.exit_code);
    end.finished_at.clone().filter(|_| complete || failed)
}

const MESSAGE_LIMIT: usize = 2000;

/// What ran, and how it ended. Fields that another release wrote are skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndedRun {
    pub(crate) job: String,
    /// Generation of the specification that the Job was last in line with.
    pub(crate) generation: i64,
    /// [`FixedFields::hash`] of that specification; absent where a Job has no note of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fields: Option<String>,
    pub(crate) complete: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<Time>,
}

impl EndedRun {
    /// The run of `job` that has ended as `status` says; `None` while it has not. `generation` is
    /// the MiniCluster's: that of a Job without a note.
    pub(crate) fn of(job: &Job, status: &MiniClusterStatus, generation: i64) -> Option<Self> {
        let condition = status.end()?;
        let end = condition.message.floor_char_boundary(MESSAGE_LIMIT);
        Some(Self {
            job: job.uid().unwrap_or_default(),
            generation: noted_generation(job).unwrap_or(generation),
            fields: FixedFields::noted_hash(job.annotations()),
            complete: status.state == Some(State::Complete),
            reason: condition.reason.clone(),
            message: condition.message[..end].to_owned(),
            exit_code: status.exit_code,
            start_time: status.start_time.clone(),
            completion_time: status.completion_time.clone(),
        })
    }

    pub(crate) fn noted_on(config_map: &ConfigMap) -> Option<Self> {
        serde_json::from_str(config_map.annotations().get(ENDED_RUN_ANNOTATION)?).ok()
    }

    /// True when a specification of `generation` asks for what this run has done already: nobody has
    /// edited it since, or what would run is the same.
    pub(crate) fn is_of(&self, generation: i64, fields: &FixedFields) -> bool {
        self.generation == generation || self.fields == Some(fields.hash())
    }
}

/// Notes the run on the `ConfigMap`, and on a new one where there is none any more, if it has ended as
/// `status` says. Nothing else of it is changed.
pub(crate) fn note(
    identity: &Identity,
    job: Option<&Job>,
    config_map: Option<&ConfigMap>,
    status: &MiniClusterStatus,
    generation: i64,
) -> Change<ConfigMap> {
    let run = job.and_then(|job| EndedRun::of(job, status, generation));
    let Some(text) = run.map(|run| json!(run).to_string()) else { return Change::Keep };
    let Some(live) = config_map else {
        let mut metadata = meta_of(identity, &identity.name.agent_config_map());
        metadata.annotations = Some([(ENDED_RUN_ANNOTATION.to_owned(), text)].into());
        return Change::Create(Box::new(ConfigMap { metadata, ..ConfigMap::default() }));
    };
    let annotations = json!({ ENDED_RUN_ANNOTATION: text });
    Change::patch(live, json!({ "metadata": { "annotations": annotations } }))
}

/// From the `ConfigMap` there is to `desired`; the note goes before another run begins.
pub(crate) fn without_note(
    job: Option<&Job>,
    live: Option<&ConfigMap>,
    desired: ConfigMap,
) -> Change<ConfigMap> {
    let Some(live) = live else { return Change::Create(Box::new(desired)) };
    let mut desired = json!(desired);
    if job.is_none() && live.annotations().contains_key(ENDED_RUN_ANNOTATION) {
        desired["metadata"]["annotations"][ENDED_RUN_ANNOTATION] = Value::Null;
    }
    Change::merge(live, desired)
}

/// Longest wait for the end of that time: then it is looked at again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// True when a finished MiniCluster is deleted sooner or later (`cleanup`, `ttlSecondsAfterFinished`).
pub(crate) const fn expires(spec: &MiniClusterSpec) -> bool {
    spec.cleanup || spec.ttl_seconds_after_finished.is_some()
}

/// How long a MiniCluster with this specification and status still stays, a day at most: nothing where it is to
/// be deleted now; absent where it has not finished, or stays until somebody deletes it.
pub(crate) fn time_until_deletion(
    spec: &MiniClusterSpec,
    status: &MiniClusterStatus,
    now: &Time,
) -> Option<Duration> {
    let end = status.end().filter(|_| expires(spec))?;
    let seconds =
        if spec.cleanup { 0 } else { spec.ttl_seconds_after_finished.unwrap_or_default() };
    let ended = status.completion_time.as_ref().unwrap_or(&end.last_transition_time);
    let passed = Duration::try_from(now.0.duration_since(ended.0)).unwrap_or_default();
    let whole = Duration::from_secs(seconds.unsigned_abs().into());
    Some(whole.saturating_sub(passed).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended, job, pod};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    #[test]
    fn the_lead_ends_a_run_where_no_other_pod_and_no_other_container_decides() {
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
            assert_eq!(end_by_lead(job, &end(code)), ends.then(|| at(190)), "{code}");
        }
        let mut suspended = once.clone();
        suspended.spec.as_mut().unwrap().suspend = Some(true);
        assert_eq!(end_by_lead(&suspended, &end(7)), None);
        let mut deleted = end(7);
        deleted.metadata.deletion_timestamp = Some(at(191));
        assert_eq!(end_by_lead(&once, &deleted), None);
        let mut beside = end(0);
        let status = beside.status.as_mut().unwrap();
        status.container_statuses.as_mut().unwrap().push(ContainerStatus::default());
        assert_eq!(end_by_lead(&once, &beside), None);
    }

    #[test]
    fn it_stays_for_the_time_that_is_given_from_its_end_on() {
        // The run ended at second 100, and its condition became true at second 110.
        let (ended, no_time) = (Some(at(100)), None);
        for (cleanup, ttl, completed, now, rest) in [
            (false, None, &ended, 1_000, None),
            (false, Some(60), &ended, 100, Some(60)),
            (false, Some(60), &ended, 159, Some(1)),
            (false, Some(60), &ended, 160, Some(0)),
            // A clock that is behind shortens nothing.
            (false, Some(60), &ended, 90, Some(60)),
            // A long time is looked at again.
            (false, Some(i32::MAX), &ended, 100, Some(86_400)),
            (false, Some(60), &no_time, 150, Some(20)),
            (true, None, &ended, 100, Some(0)),
            (true, Some(60), &ended, 100, Some(0)),
        ] {
            let condition = Condition {
                type_: "Complete".to_owned(),
                status: "True".to_owned(),
                reason: "CommandSucceeded".to_owned(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: at(110),
            };
            let mut status = MiniClusterStatus {
                state: Some(State::Complete),
                completion_time: completed.clone(),
                conditions: vec![condition],
                ..MiniClusterStatus::default()
            };
            let spec = MiniClusterSpec {
                cleanup,
                ttl_seconds_after_finished: ttl,
                ..MiniClusterSpec::default()
            };
            let left = |status: &_| time_until_deletion(&spec, status, &at(now));
            assert_eq!(left(&status).map(|rest| rest.as_secs()), rest, "{ttl:?} {now}");
            status.state = Some(State::Running);
            assert_eq!(left(&status), None, "it has not finished");
        }
    }
}
