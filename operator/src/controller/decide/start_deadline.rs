//! The time in which the quorum must be reached (`startDeadlineSeconds`); after it the MiniCluster fails.
//!
//! The operator sets the Job's own deadline to a time that has passed, and notes the cause on the Job in the same
//! write. So the Job controller ends the Job, and the cause is known even if the operator does not see the end.

use crate::controller::job_ext::{
    LATE_START_ANNOTATION, QUORUM_ANNOTATION, is_suspended, parallelism, ready_pods, start_time,
};
use crate::controller::observe::Observed;
use crate::controller::pod_ext::broker_is_ready;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum StartDeadline {
    /// There is no deadline, or the Job has not started.
    #[default]
    None,
    /// The quorum was reached; the text is the start time of the Job.
    QuorumReached(String),
    Remaining(Duration),
    /// The deadline has passed; the text is what was waited for.
    Passed(String),
}

impl StartDeadline {
    pub(crate) fn of(seconds: Option<u64>, live: &Observed, now: &Time) -> Self {
        let Some(job) = &live.job else { return Self::None };
        if let Some(cause) = job.annotations().get(LATE_START_ANNOTATION) {
            return Self::Passed(cause.clone());
        }
        let start = start_time(job).filter(|_| !is_suspended(job));
        let Some((seconds, start)) = seconds.zip(start) else {
            return Self::None;
        };
        let started = start.0.to_string();
        let lead_is_ready =
            live.pods.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, &job.name_any()));
        if lead_is_ready || job.annotations().get(QUORUM_ANNOTATION) == Some(&started) {
            return Self::QuorumReached(started);
        }
        let passed = Duration::try_from(now.0.duration_since(start.0)).unwrap_or_default();
        let left = Duration::from_secs(seconds).saturating_sub(passed);
        if left.is_zero() { Self::Passed(cause(live, job, seconds)) } else { Self::Remaining(left) }
    }

    pub(crate) fn set_deadline(&self, live: Option<&Job>, job: &mut Job) {
        let noted = |key: &str| live.and_then(|live| live.annotations().get(key));
        let note = match self {
            Self::None => noted(QUORUM_ANNOTATION).map(|ran| (QUORUM_ANNOTATION, ran)),
            Self::QuorumReached(start) => Some((QUORUM_ANNOTATION, start)),
            Self::Remaining(_) => None,
            Self::Passed(cause) => {
                // The shortest possible deadline: it has passed, because the Job started longer ago.
                if let Some(spec) = &mut job.spec {
                    spec.active_deadline_seconds = Some(1);
                }
                Some((LATE_START_ANNOTATION, cause))
            }
        };
        let note = note.map(|(key, value)| (key.to_owned(), value.clone()));
        job.annotations_mut().extend(note);
    }

    pub(crate) const fn remaining(&self) -> Option<Duration> {
        if let Self::Remaining(remaining) = self { Some(*remaining) } else { None }
    }
}

fn cause(live: &Observed, job: &Job, seconds: u64) -> String {
    let waiting = live.pods.waiting.as_ref().map(|waiting| waiting.message.clone());
    let found = live.pods.refused.clone().or(waiting).unwrap_or_else(|| {
        format!("{} of {} brokers are ready", ready_pods(job), parallelism(job))
    });
    format!("not running after the {seconds} seconds of spec.startDeadlineSeconds: {found}")
}
