//! Where a MiniCluster is between its Job's creation and its end.

use super::pod::{Failure, PodView};
use crate::cluster::Cluster;
use crate::controller::job_change::GENERATION_ANNOTATION;
use crate::controller::observe::Observed;
use crate::crd::State;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Where a MiniCluster is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// No pod runs yet; what the lead's pod waits for, if it says so.
    Pending(Option<String>),
    /// Pods run, the lead is not ready; what its pod waits for, if it says so.
    Starting(Option<String>),
    /// The lead is ready: the quorum is there; what has failed beside it, if something has.
    Running(Option<String>),
    /// The lead has ended, the Job not yet.
    Ending,
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
        match self {
            Self::Complete { at } | Self::Failed { at, .. } => at.clone(),
            Self::Pending(_)
            | Self::Starting(_)
            | Self::Running(_)
            | Self::Ending
            | Self::Suspended => None,
        }
    }

    /// The phase in one word.
    pub(super) const fn state(&self) -> State {
        match self {
            Self::Pending(_) => State::Pending,
            Self::Starting(_) => State::Starting,
            Self::Running(_) | Self::Ending => State::Running,
            Self::Suspended => State::Suspended,
            Self::Complete { .. } => State::Complete,
            Self::Failed { .. } => State::Failed,
        }
    }
}

/// The generation of the specification that the Job was made from.
pub(super) fn generation(observed: &Observed) -> i64 {
    let noted = observed.job.as_ref().and_then(|job| job.annotations().get(GENERATION_ANNOTATION));
    noted.and_then(|text| text.parse().ok()).unwrap_or(observed.generation)
}

/// Decides from the Job and the lead's pod.
pub(super) fn phase(cluster: &Cluster, observed: &Observed, lead: Option<&PodView<'_>>) -> Phase {
    let Some(job) = &observed.job else { return Phase::Pending(None) };
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
        let failure = failure(cluster, observed, lead, condition);
        return Phase::Failed { at: condition.last_transition_time.clone(), failure };
    }
    if job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) {
        return Phase::Suspended;
    }
    let Some(lead) = lead else { return Phase::Pending(no_pods(job)) };
    if lead.over {
        Phase::Ending
    } else if lead.ready {
        Phase::Running(lead.failed_container())
    } else if lead.running || ready(job) > 0 {
        Phase::Starting(lead.waiting.clone())
    } else {
        Phase::Pending(lead.waiting.clone())
    }
}

/// A Job that was started and has no pod is being refused its pods.
fn no_pods(job: &Job) -> Option<String> {
    let status = job.status.as_ref()?;
    let none = status.start_time.is_some() && status.active.unwrap_or_default() == 0;
    let refused = none && status.terminating.unwrap_or_default() == 0;
    let name = job.name_any();
    refused.then(|| format!("no pod was made yet; `kubectl describe job {name}` says why"))
}

fn ready(job: &Job) -> i32 {
    job.status.as_ref().and_then(|status| status.ready).unwrap_or_default()
}

fn condition<'job>(job: &'job Job, type_: &str) -> Option<&'job JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Why the Job failed: what the lead says, else what the worker says, else what the Job says.
fn failure(
    cluster: &Cluster,
    observed: &Observed,
    lead: Option<&PodView<'_>>,
    condition: &JobCondition,
) -> Failure {
    let reason = condition.reason.clone().unwrap_or_else(|| "JobFailed".to_owned());
    let message = condition.message.clone().unwrap_or_default();
    if reason == "DeadlineExceeded" {
        let seconds = cluster.deadline_seconds;
        let message = if cluster.deadline_by_agent {
            format!(
                "the deadline of {seconds} seconds has passed, and the lead did not end the run then: did its pod start?"
            )
        } else {
            format!("the deadline of {seconds} seconds has passed")
        };
        return Failure { reason, message };
    }
    if let Some(failure) = lead.and_then(PodView::failure) {
        return failure;
    }
    let worker = observed.failed_worker.as_ref();
    let worker = worker.map(|pod| (pod, PodView::new(pod, cluster.name.as_str())));
    if let Some((pod, Some(failure))) = worker.map(|(pod, view)| (pod, view.failure())) {
        let message = format!("pod {}: {}", pod.name_any(), failure.message);
        return Failure { message, ..failure };
    }
    Failure { reason, message }
}
