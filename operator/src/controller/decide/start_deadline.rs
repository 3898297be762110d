//! The time in which the quorum must be reached (`startDeadlineSeconds`): what is not running by then fails.
//!
//! The Job ends itself: its own deadline is set to what has passed already, and in the same write the cause is
//! noted on it. So the operator need not see the end to know why it was.

use crate::controller::job_ext::{
    CAUSE_ANNOTATION, RAN_ANNOTATION, is_finished, is_suspended, parallelism, ready_pods,
    start_time,
};
use crate::controller::observe::Live;
use crate::controller::pod_ext::broker_is_ready;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum StartDeadline {
    /// None is given, or the Job has not started, or has ended.
    #[default]
    None,
    /// The quorum was reached since the Job started, at this time.
    Ran(String),
    Rest(Duration),
    /// It has passed; what was waited for.
    Passed(String),
}

impl StartDeadline {
    pub(crate) fn of(seconds: Option<u64>, live: &Live, now: &Time) -> Self {
        let Some(job) = live.job.as_ref().filter(|job| !is_finished(job)) else {
            return Self::None;
        };
        if let Some(cause) = job.annotations().get(CAUSE_ANNOTATION) {
            return Self::Passed(cause.clone());
        }
        let start = start_time(job).filter(|_| !is_suspended(job));
        let Some((seconds, start)) = seconds.zip(start) else {
            return Self::None;
        };
        let started = start.0.to_string();
        let lead_is_ready =
            live.pods.lead.as_ref().is_some_and(|lead| broker_is_ready(lead, &job.name_any()));
        if lead_is_ready || job.annotations().get(RAN_ANNOTATION) == Some(&started) {
            return Self::Ran(started);
        }
        let passed = Duration::try_from(now.0.duration_since(start.0)).unwrap_or_default();
        let rest = Duration::from_secs(seconds).saturating_sub(passed);
        if rest.is_zero() { Self::Passed(cause(live, job, seconds)) } else { Self::Rest(rest) }
    }

    pub(crate) fn set_deadline(&self, live: Option<&Job>, job: &mut Job) {
        let noted = |key: &str| live.and_then(|live| live.annotations().get(key));
        let note = match self {
            Self::None => noted(RAN_ANNOTATION).map(|ran| (RAN_ANNOTATION, ran)),
            Self::Ran(start) => Some((RAN_ANNOTATION, start)),
            Self::Rest(_) => None,
            Self::Passed(cause) => {
                // The least that there is: it has passed, whatever it counts from.
                if let Some(spec) = &mut job.spec {
                    spec.active_deadline_seconds = Some(1);
                }
                Some((CAUSE_ANNOTATION, cause))
            }
        };
        let note = note.map(|(key, value)| (key.to_owned(), value.clone()));
        job.annotations_mut().extend(note);
    }

    pub(crate) const fn rest(&self) -> Option<Duration> {
        if let Self::Rest(rest) = self { Some(*rest) } else { None }
    }
}

fn cause(live: &Live, job: &Job, seconds: u64) -> String {
    let waiting = live.pods.waiting.as_ref().map(|waiting| waiting.message.clone());
    let found = live.pods.refused.clone().or(waiting).unwrap_or_else(|| {
        format!("{} of {} brokers are ready", ready_pods(job), parallelism(job))
    });
    format!("not running after the {seconds} seconds of spec.startDeadlineSeconds: {found}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended_job, job, ready_lead};
    use crate::controller::observe::waiting::Waiting;

    /// A Job that started at second 100 with a lead that runs.
    fn started() -> Live {
        Live { job: Some(job(1)), ..Live::default() }
    }

    #[test]
    fn the_start_deadline_counts_from_the_start_of_the_job() {
        let of = |live: &Live, now| StartDeadline::of(Some(60), live, &at(now));
        assert_eq!(of(&started(), 130).rest(), Some(Duration::from_secs(30)));
        assert_eq!(StartDeadline::of(None, &started(), &at(900)), StartDeadline::None);
        let mut suspended = started();
        suspended.job.as_mut().unwrap().spec.as_mut().unwrap().suspend = Some(true);
        let ended = Live { job: Some(ended_job("Failed", "FailedIndexes")), ..Live::default() };
        for live in [&Live::default(), &suspended, &ended] {
            assert_eq!(of(live, 900), StartDeadline::None);
        }
    }

    #[test]
    fn an_instance_that_ran_has_met_its_start_deadline() {
        let mut live = started();
        live.pods.lead = Some(ready_lead());
        let of = |live: &Live, now| StartDeadline::of(Some(60), live, &at(now));
        let ran = of(&live, 900);
        assert!(matches!(&ran, StartDeadline::Ran(_)), "{ran:?}");
        ran.set_deadline(None, live.job.as_mut().unwrap());
        live.pods.lead = None;
        assert_eq!(of(&live, 900), ran, "its lead was lost");
        live.job.as_mut().unwrap().status.as_mut().unwrap().start_time = Some(at(500));
        let rest = of(&live, 540).rest();
        assert_eq!(rest, Some(Duration::from_secs(20)), "it was suspended, and starts anew");
    }

    #[test]
    fn the_cause_of_a_missed_deadline_is_noted_and_stays() {
        let mut live = started();
        let passed = |live: &Live, cause: &str| {
            let begin = "not running after the 60 seconds of spec.startDeadlineSeconds: ";
            let passed = StartDeadline::of(Some(60), live, &at(160));
            assert_eq!(passed, StartDeadline::Passed(format!("{begin}{cause}")));
            passed
        };
        passed(&live, "1 of 4 brokers are ready");
        live.pods.waiting = Some(Waiting { message: "no node".to_owned(), lasts: true });
        passed(&live, "no node");
        live.pods.refused = Some("a quota".to_owned());
        let quota = passed(&live, "a quota");
        let job = live.job.as_mut().unwrap();
        quota.set_deadline(None, job);
        assert_eq!(job.spec.as_ref().unwrap().active_deadline_seconds, Some(1));
        (live.pods.refused, live.pods.waiting) = (None, None);
        assert_eq!(StartDeadline::of(None, &live, &at(170)), quota, "it is not taken back");
    }
}
