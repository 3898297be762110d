//! A MiniCluster that is suspended: its Job is, and its pods are gone.
//!
//! Who has suspended a Job resumes it: what the specification did is noted on the Job, and a Job that somebody
//! else has suspended (a queue, a person) is left to them.

use super::observe::Live;
use flux_contract::invocation::REPLACED_VARIABLES;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Annotation of the Job: the specification has suspended it.
pub(super) const SUSPENDED_ANNOTATION: &str = "flux-framework.org/suspended";

/// True while the Job is to have no pods.
pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// True when the specification has suspended the Job.
pub(super) fn by_specification(job: &Job) -> bool {
    job.annotations().contains_key(SUSPENDED_ANNOTATION)
}

/// True while pods of the Job are there that have not ended.
pub(super) fn has_pods(job: &Job) -> bool {
    let counts = |it: &JobStatus| [it.active, it.ready, it.terminating];
    let counts = job.status.as_ref().map(counts).into_iter().flatten();
    counts.flatten().any(|count| count > 0)
}

/// Writes into `job`, the one that is to be, whether it is suspended; `asked`: the specification says so. A Job
/// is resumed when the last of its pods has gone: a new one would find the state of before.
pub(super) fn direct(asked: bool, live: Option<&Job>, job: &mut Job) {
    let ours = live.is_some_and(|live| is_suspended(live) && by_specification(live));
    let stays = asked || (ours && live.is_some_and(has_pods));
    if let Some(spec) = &mut job.spec {
        spec.suspend = (stays || ours).then_some(stays);
    }
    if stays {
        job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "true".to_owned());
    }
}

/// Lead pods that suspensions of the Job have taken, of which `known` are known from before. The Job controller
/// counts them among those that it has replaced, and keeps the last until there is another.
pub(super) fn excused(live: &Live, known: u32) -> u32 {
    let suspended = live.job.as_ref().is_some_and(is_suspended);
    let lead = live.pods.lead.as_ref().filter(|_| suspended);
    let taken = lead.filter(|lead| has_failed(lead) && was_deleted(lead)).map(with_those_before);
    known.max(taken.unwrap_or_default())
}

/// True when the pod `lead` is one of the `excused`.
pub(super) fn was_taken(lead: &Pod, excused: u32) -> bool {
    has_failed(lead) && with_those_before(lead) <= excused
}

/// How many pods of its index there were with this one, as the Job controller notes it.
fn with_those_before(pod: &Pod) -> u32 {
    let counts = REPLACED_VARIABLES.map(|(_, annotation)| pod.annotations().get(annotation));
    let counts = counts.into_iter().flatten().filter_map(|count| count.parse::<u32>().ok());
    counts.fold(1, u32::saturating_add)
}

/// The Job deletes its pods when it is suspended; whoever evicts one says so on it.
fn was_deleted(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let evicted = conditions.unwrap_or_default().iter().any(|it| it.type_ == "DisruptionTarget");
    pod.metadata.deletion_timestamp.is_some() && !evicted
}

fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended, job, pod};

    fn directed(asked: bool, live: Option<&Job>) -> (Option<bool>, bool) {
        let mut wanted = job(0);
        direct(asked, live, &mut wanted);
        (wanted.spec.as_ref().unwrap().suspend, by_specification(&wanted))
    }

    /// A Job that is suspended, by the specification or by somebody else, and has pods or none.
    fn suspended(ours: bool, pods: i32) -> Job {
        let mut job = job(0);
        job.spec.as_mut().unwrap().suspend = Some(true);
        let status = job.status.as_mut().unwrap();
        (status.active, status.terminating) = (Some(0), Some(pods));
        if ours {
            job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "true".to_owned());
        }
        job
    }

    #[test]
    fn the_specification_suspends_and_resumes_what_it_has_suspended_alone() {
        assert_eq!(directed(false, None), (None, false), "a queue may suspend it on its way");
        assert_eq!(directed(true, None), (Some(true), true));
        assert_eq!(directed(true, Some(&job(4))), (Some(true), true));
        assert_eq!(directed(false, Some(&job(4))), (None, false));
        assert_eq!(directed(false, Some(&suspended(false, 0))), (None, false), "somebody else's");
        assert_eq!(directed(true, Some(&suspended(false, 0))), (Some(true), true));
        assert_eq!(directed(false, Some(&suspended(true, 1))), (Some(true), true), "pods are left");
        assert_eq!(directed(false, Some(&suspended(true, 0))), (Some(false), false));
    }

    /// A lead that ended with 75, after so many others.
    fn stopped(failed: &str, ignored: &str) -> Pod {
        let mut pod = pod("hello-0", "Failed", "hello", ended(75, "Error", None));
        pod.metadata.deletion_timestamp = Some(at(1));
        let counts = REPLACED_VARIABLES.map(|(_, key)| key.to_owned()).into_iter();
        pod.metadata.annotations =
            Some(counts.zip([failed.to_owned(), ignored.to_owned()]).collect());
        pod
    }

    fn count(job: Job, lead: Pod, known: u32) -> u32 {
        let mut live = Live { job: Some(job), ..Live::default() };
        live.pods.lead = Some(lead);
        excused(&live, known)
    }

    #[test]
    fn leads_that_a_suspension_has_taken_are_excused_and_no_others() {
        assert_eq!(count(suspended(true, 0), stopped("0", "0"), 0), 1);
        assert_eq!(count(suspended(false, 0), stopped("1", "2"), 1), 4, "whoever has suspended it");
        assert_eq!(count(suspended(true, 0), stopped("0", "0"), 3), 3, "what was known stays");
        assert_eq!(count(job(0), stopped("0", "0"), 0), 0, "the Job is not suspended");
        let mut evicted = stopped("0", "0");
        let mut condition = evicted.status.clone().unwrap().conditions.unwrap().remove(0);
        condition.type_ = "DisruptionTarget".to_owned();
        evicted.status.as_mut().unwrap().conditions.as_mut().unwrap().push(condition);
        assert_eq!(count(suspended(true, 0), evicted, 0), 0);
        let mut killed = stopped("0", "0");
        killed.metadata.deletion_timestamp = None;
        assert_eq!(count(suspended(true, 0), killed, 0), 0);
    }

    #[test]
    fn a_lead_of_before_the_suspension_says_nothing_of_the_run_after_it() {
        assert!(was_taken(&stopped("0", "0"), 1));
        assert!(!was_taken(&stopped("0", "1"), 1));
        assert!(!was_taken(&stopped("0", "0"), 0));
    }
}
