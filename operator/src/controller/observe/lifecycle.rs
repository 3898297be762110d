//! The state of a MiniCluster between the creation of its Job and the end of its run.

use super::facts::Facts;
use super::pod::{Outcome, PodView, exit_code_of_lost_lead, failure_of_lost_lead};
use crate::controller::job_ext::{
    LATE_START_ANNOTATION, counts_by_index, has_pods, is_suspended, job_condition,
    noted_generation, ready_pods,
};
use crate::controller::observe::waiting::Waiting;
use crate::controller::run_record::{RunRecord, end_by_lead};
use flux_api::crd::{Reason, State};
use flux_api::objects::is_replaced;
use flux_contract::labels;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Phase {
    pub(super) state: State,
    pub(super) suspending: bool,
    pub(super) waiting: Option<Waiting>,
    pub(super) end: Option<End>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) at: Option<Time>,
    pub(super) outcome: Outcome,
}

impl From<State> for Phase {
    fn from(state: State) -> Self {
        Self { state, suspending: false, waiting: None, end: None }
    }
}

impl Phase {
    fn ended(state: State, at: Option<Time>, outcome: Outcome) -> Self {
        Self { end: Some(End { at, outcome }), ..Self::from(state) }
    }
}

impl From<&RunRecord> for Phase {
    fn from(run: &RunRecord) -> Self {
        let Some(end) = &run.end else {
            return Self::ended(State::Failed, None, end_not_seen(run));
        };
        let state = if end.complete { State::Complete } else { State::Failed };
        let outcome = Outcome::new(&end.reason, end.message.clone());
        Self::ended(state, end.completion_time.clone(), outcome)
    }
}

/// The outcome of a run that had begun and whose Job was deleted before the operator saw the end.
fn end_not_seen(run: &RunRecord) -> Outcome {
    let (uid, selector) = (&run.job, labels::CONTROLLER_UID);
    let message = format!(
        "the run had begun, and its Job (uid {uid}) is gone: the operator did not see how the run ended, and does not run \
         the command a second time. Pods of the Job that somebody has kept may still run: kubectl get pods --selector \
         {selector}={uid}. Delete and create the MiniCluster to run it again"
    );
    Outcome::new(Reason::EndNotSeen, message)
}

pub(super) fn generation(facts: &Facts<'_>) -> i64 {
    let noted = facts.live.job.as_ref().and_then(noted_generation);
    let ended = facts.plan.mode.ended().map(|run| run.generation);
    noted.or(ended).unwrap_or(facts.plan.generation)
}

/// The phase by the record of the run's end, else by the Job and the lead's pod.
pub(super) fn phase(
    runner: &str,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
    now: &Time,
) -> Phase {
    if let Some(run) = facts.plan.mode.ended() {
        return run.into();
    }
    let Some(job) = &facts.live.job else {
        let refused = facts.plan.violations.is_some();
        return if refused { State::Invalid } else { State::Pending }.into();
    };
    if let Some(condition) = job_condition(job, "Complete") {
        let at = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let at = at.or_else(|| condition.last_transition_time.clone());
        return Phase::ended(State::Complete, at, success(facts.plan.interactive));
    }
    let by_lead = lead.and_then(|lead| ended_by_lead(job, lead, facts.plan.interactive));
    if let Some(condition) = job_condition(job, "Failed") {
        // The end of the pod, which has the exit code, may arrive a moment later and cause another reconcile.
        if lead.is_some_and(PodView::is_about_to_end) {
            return State::Ending.into();
        }
        // A container that a webhook has added may have failed the Job of a good run.
        if let Some(phase) = by_lead.filter(|phase| phase.state == State::Complete) {
            return phase;
        }
        let failure = failure(runner, facts, lead, condition, now);
        return Phase::ended(State::Failed, condition.last_transition_time.clone(), failure);
    }
    if let Some(phase) = by_lead {
        return phase;
    }
    if is_suspended(job) {
        let suspending = has_pods(job);
        let state = if suspending { State::Ending } else { State::Suspended };
        return Phase { suspending, ..state.into() };
    }
    let waiting =
        facts.live.pods.waiting.clone().or_else(|| lead.and_then(|it| it.waiting.clone()));
    let Some(lead) = lead else {
        return Phase { waiting: waiting.or_else(|| no_pods(job)), ..State::Pending.into() };
    };
    let state = if lead.unstarted && counts_by_index(job) {
        State::Pending
    } else if lead.over || (lead.ended.is_some() && !restarts(job)) {
        let waits = facts.plan.interactive && is_replaced_later(job, lead);
        if waits { State::Pending } else { return State::Ending.into() }
    } else if lead.ready {
        State::Running
    } else if lead.degraded {
        return State::Degraded.into();
    } else if lead.running || ready_pods(job) > 0 {
        State::Starting
    } else {
        State::Pending
    };
    Phase { waiting, ..state.into() }
}

fn ended_by_lead(job: &Job, lead: &PodView<'_>, interactive: bool) -> Option<Phase> {
    let end = end_by_lead(job, lead.pod)?;
    Some(match lead.failure().filter(|_| !end.complete) {
        Some(failure) => Phase::ended(State::Failed, Some(end.at), failure),
        None => Phase::ended(State::Complete, Some(end.at), success(interactive)),
    })
}

/// The wait of a started Job that has no pods: the Job controller cannot create them.
fn no_pods(job: &Job) -> Option<Waiting> {
    let status = job.status.as_ref()?;
    let none = status.start_time.is_some() && status.active.unwrap_or_default() == 0;
    let refused = none && status.terminating.unwrap_or_default() == 0;
    let name = job.name_any();
    let message = format!("the Job has no pod yet; `kubectl describe job {name}` shows why");
    refused.then_some(Waiting { message, is_persistent: false })
}

fn is_replaced_later(job: &Job, lead: &PodView<'_>) -> bool {
    counts_by_index(job) && lead.ended.as_ref().is_none_or(|ended| is_replaced(ended.exit_code))
}

fn restarts(job: &Job) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.restart_policy.as_deref()) == Some("OnFailure")
}

fn success(interactive: bool) -> Outcome {
    let (reason, message) = if interactive {
        (Reason::ShutDown, "the instance was shut down")
    } else {
        (Reason::CommandSucceeded, "the command ended with exit code 0")
    };
    Outcome::new(reason, message.to_owned())
}

/// Why the Job failed: by the lead, else by a worker, else by the Job's condition, perhaps with a lost lead's code.
fn failure(
    runner: &str,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
    condition: &JobCondition,
    now: &Time,
) -> Outcome {
    let reason = condition.reason.clone().unwrap_or_else(|| Reason::JobFailed.as_str().to_owned());
    let message = condition.message.clone().unwrap_or_else(|| "the Job failed".to_owned());
    if reason == Reason::DeadlineExceeded.as_str() {
        let job = facts.live.job.as_ref();
        if let Some(cause) = job.and_then(|job| job.annotations().get(LATE_START_ANNOTATION)) {
            return Outcome::new(Reason::StartDeadlineExceeded, cause.clone());
        }
        let job = job.and_then(|job| job.spec.as_ref());
        let seconds = job.and_then(|spec| spec.active_deadline_seconds).unwrap_or_default();
        let message = format!(
            "the Job's deadline of {seconds} seconds has passed; the lead had not ended the run before"
        );
        return Outcome { reason, message };
    }
    if let Some(failure) = lead.and_then(PodView::failure) {
        return failure;
    }
    let worker = facts.live.pods.failed_worker.as_ref();
    let worker = worker.map(|pod| (pod, PodView::new(pod, runner, now)));
    if let Some((pod, Some(failure))) = worker.map(|(pod, view)| (pod, view.failure())) {
        let message = format!("pod {}: {}", pod.name_any(), failure.message);
        return Outcome { message, ..failure };
    }
    let code = facts.live.job.as_ref().and_then(exit_code_of_lost_lead);
    code.map_or(Outcome { reason, message }, failure_of_lost_lead)
}
