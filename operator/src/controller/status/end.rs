//! Where a MiniCluster is between its Job's creation and its end.

use super::facts::Facts;
use super::lost_pod;
use super::pod::{Failure, PodView};
use crate::controller::build::KILLED;
use crate::controller::decide::ended_run::EndedRun;
use crate::controller::kube_ext::{CAUSE_ANNOTATION, has_pods, is_suspended, noted_generation};
use crate::controller::observe::waiting::Waiting;
use crate::crd::State;
use flux_contract::Exit;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Reason of a failure to start in time (`startDeadlineSeconds`).
const START_DEADLINE: &str = "StartDeadlineExceeded";

/// Where a MiniCluster is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// No pod runs yet; what a pod waits for, if it says so.
    Pending(Option<Waiting>),
    /// Pods run, the lead is not ready; what a pod waits for, if it says so.
    Starting(Option<Waiting>),
    /// The lead is ready: the quorum was there; what another pod waits for, if it says so.
    Running(Option<Waiting>),
    /// The lead was ready, runs, and is not ready any more.
    Degraded,
    /// The lead has ended, the Job not yet.
    Ending,
    /// The Job is suspended, and its pods have not ended yet.
    Suspending,
    /// The Job is suspended.
    Suspended,
    /// The lead ended with exit code 0.
    Complete {
        /// When.
        at: Option<Time>,
    },
    /// The Job failed.
    Failed {
        /// When.
        at: Option<Time>,
        /// Why.
        failure: Failure,
    },
}

impl Phase {
    /// True once nothing more happens.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Failed { .. })
    }

    /// When it was over.
    pub(super) fn ended_at(&self) -> Option<Time> {
        if let Self::Complete { at } | Self::Failed { at, .. } = self { at.clone() } else { None }
    }

    /// What a pod waits for that is not over, if it says so.
    pub(super) const fn waiting(&self) -> Option<&Waiting> {
        if let Self::Pending(waiting) | Self::Starting(waiting) | Self::Running(waiting) = self {
            waiting.as_ref()
        } else {
            None
        }
    }

    /// The phase in one word.
    pub(super) const fn state(&self) -> State {
        match self {
            Self::Pending(_) => State::Pending,
            Self::Starting(_) => State::Starting,
            Self::Running(_) => State::Running,
            Self::Degraded => State::Degraded,
            Self::Ending | Self::Suspending => State::Ending,
            Self::Suspended => State::Suspended,
            Self::Complete { .. } => State::Complete,
            Self::Failed { .. } => State::Failed,
        }
    }
}

impl From<&EndedRun> for Phase {
    fn from(run: &EndedRun) -> Self {
        let at = run.completion_time.clone();
        if run.complete {
            return Self::Complete { at };
        }
        let failure = Failure { reason: run.reason.clone(), message: run.message.clone() };
        Self::Failed { at, failure }
    }
}

/// The generation of the specification that ran.
pub(super) fn generation(facts: &Facts<'_>) -> i64 {
    let noted = facts.live.job.as_ref().and_then(noted_generation);
    let ended = facts.plan.mode.ended().map(|run| run.generation);
    noted.or(ended).unwrap_or(facts.plan.generation)
}

/// Decides from the note of the run's end, else from the Job and the lead's pod.
pub(super) fn phase(
    runner: &str,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
    now: &Time,
) -> Phase {
    if let Some(run) = facts.plan.mode.ended() {
        return run.into();
    }
    let Some(job) = &facts.live.job else { return Phase::Pending(None) };
    if let Some(condition) = condition(job, "Complete") {
        let at = job.status.as_ref().and_then(|status| status.completion_time.clone());
        return Phase::Complete { at: at.or_else(|| condition.last_transition_time.clone()) };
    }
    if let Some(condition) = condition(job, "Failed") {
        // The pod's end may be told a moment after the Job's: the exit code is worth the wait,
        // and the pod's change is what ends it.
        if lead.is_some_and(PodView::is_about_to_end) {
            return Phase::Ending;
        }
        let failure = failure(runner, facts, lead, condition, now);
        return Phase::Failed { at: condition.last_transition_time.clone(), failure };
    }
    if is_suspended(job) {
        return if has_pods(job) { Phase::Suspending } else { Phase::Suspended };
    }
    let waiting =
        || facts.live.pods.waiting.clone().or_else(|| lead.and_then(|it| it.waiting.clone()));
    let Some(lead) = lead else { return Phase::Pending(waiting().or_else(|| no_pods(job))) };
    if lead.over || (lead.ended.is_some() && !restarts(job)) {
        let comes_back = facts.plan.interactive && is_replaced(job, lead);
        if comes_back { Phase::Pending(waiting()) } else { Phase::Ending }
    } else if lead.ready {
        Phase::Running(waiting())
    } else if lead.degraded {
        Phase::Degraded
    } else if lead.running || ready(job) > 0 {
        Phase::Starting(waiting())
    } else {
        Phase::Pending(waiting())
    }
}

/// A Job that was started and has no pod is being refused its pods.
fn no_pods(job: &Job) -> Option<Waiting> {
    let status = job.status.as_ref()?;
    let none = status.start_time.is_some() && status.active.unwrap_or_default() == 0;
    let refused = none && status.terminating.unwrap_or_default() == 0;
    let name = job.name_any();
    let message = format!("no pod was made yet; `kubectl describe job {name}` says why");
    refused.then_some(Waiting { message, lasts: false })
}

/// True when the Job makes the lead's pod, which has ended, again.
fn is_replaced(job: &Job, lead: &PodView<'_>) -> bool {
    let by_index = job.spec.as_ref().is_some_and(|spec| spec.backoff_limit_per_index.is_some());
    let stopped = i32::from(Exit::Stopped.code());
    by_index
        && lead
            .ended
            .as_ref()
            .is_none_or(|ended| ended.exit_code == stopped || KILLED.contains(&ended.exit_code))
}

/// True when a container that fails is started again in its pod.
fn restarts(job: &Job) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.restart_policy.as_deref()) == Some("OnFailure")
}

fn ready(job: &Job) -> i32 {
    job.status.as_ref().and_then(|status| status.ready).unwrap_or_default()
}

fn condition<'job>(job: &'job Job, type_: &str) -> Option<&'job JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Why the Job failed: what the lead says, else what the worker says, else what the Job says, be it of the lead.
fn failure(
    runner: &str,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
    condition: &JobCondition,
    now: &Time,
) -> Failure {
    let reason = condition.reason.clone().unwrap_or_else(|| "JobFailed".to_owned());
    let message = condition.message.clone().unwrap_or_else(|| "the Job failed".to_owned());
    if reason == "DeadlineExceeded" {
        let job = facts.live.job.as_ref();
        if let Some(cause) = job.and_then(|job| job.annotations().get(CAUSE_ANNOTATION)) {
            return Failure { reason: START_DEADLINE.to_owned(), message: cause.clone() };
        }
        let job = job.and_then(|job| job.spec.as_ref());
        let seconds = job.and_then(|spec| spec.active_deadline_seconds).unwrap_or_default();
        let message = format!(
            "the Job's deadline of {seconds} seconds has passed; the lead had not ended the run before"
        );
        return Failure { reason, message };
    }
    if let Some(failure) = lead.and_then(PodView::failure) {
        return failure;
    }
    let worker = facts.live.pods.failed_worker.as_ref();
    let worker = worker.map(|pod| (pod, PodView::new(pod, runner, now)));
    if let Some((pod, Some(failure))) = worker.map(|(pod, view)| (pod, view.failure())) {
        let message = format!("pod {}: {}", pod.name_any(), failure.message);
        return Failure { message, ..failure };
    }
    let code = facts.live.job.as_ref().and_then(lost_pod::exit_code);
    code.map_or(Failure { reason, message }, lost_pod::failure)
}
