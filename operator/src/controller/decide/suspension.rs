//! A MiniCluster that is suspended: its Job is, and its pods are gone.
//!
//! Who has suspended a Job resumes it: what the specification did is noted on the Job, and a Job that somebody
//! else has suspended (a queue, a person) is left to them.

use crate::controller::kube_ext::{
    SUSPENDED_ANNOTATION, broker_is_ready, has_failed, has_pods, is_ending,
    is_suspended_by_specification,
};
use crate::controller::observe::Live;
use flux_contract::{AgentConfig, Workload};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Finalizer of a pod that the Job controller has yet to count.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Writes into `job`, the one that is to be, whether it is suspended; `asked`: the specification says so. A Job
/// is resumed when the last of its pods has gone: a new one would find the state of before.
pub(crate) fn set_suspend(asked: bool, live: Option<&Job>, job: &mut Job) {
    let ours = live.is_some_and(is_suspended_by_specification);
    let stays = asked || (ours && live.is_some_and(has_pods));
    if let Some(spec) = &mut job.spec {
        spec.suspend = (stays || ours).then_some(stays);
    }
    if stays {
        job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "true".to_owned());
    }
}

/// True when a suspension of `job` has taken the pod `lead`. The Job controller lets go of such a pod before it
/// deletes it (`deleteJobPods` of Kubernetes 1.36 and 1.37) and counts it nowhere; so it does with what is left
/// of a Job that ends.
pub(crate) fn was_taken(lead: &Pod, job: Option<&Job>) -> bool {
    let is_left = lead.metadata.deletion_timestamp.is_some()
        && !lead.finalizers().iter().any(|finalizer| finalizer == JOB_TRACKING);
    has_failed(lead) && is_left && job.is_some_and(|job| !is_ending(job))
}

/// True once the instance that was started with `config` has its command, and would bring it back from its
/// archive: its lead submits it as soon as it is ready.
pub(crate) fn has_submitted(config: &AgentConfig, live: &Live) -> bool {
    let is_up = |lead: &Pod| broker_is_ready(lead, config.cluster.name.as_str());
    let submits = matches!(config.workload, Workload::Interactive { submission: Some(_) });
    submits && config.archive.is_some() && live.pods.lead.as_ref().is_some_and(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, ended, ended_job, job, pod};

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
        for (asked, live, suspend) in [
            (true, None, Some(true)),
            (true, Some(&job(4)), Some(true)),
            (true, Some(&suspended(false, 0)), Some(true)),
            // A queue may suspend it on its way, or somebody has.
            (false, None, None),
            (false, Some(&job(4)), None),
            (false, Some(&suspended(false, 0)), None),
            // Pods are left, or none.
            (false, Some(&suspended(true, 1)), Some(true)),
            (false, Some(&suspended(true, 0)), Some(false)),
        ] {
            let mut desired = job(0);
            set_suspend(asked, live, &mut desired);
            assert_eq!(desired.spec.as_ref().unwrap().suspend, suspend);
            assert_eq!(is_suspended_by_specification(&desired), suspend == Some(true));
        }
    }

    #[test]
    fn a_lead_that_a_suspension_has_taken_is_one_that_the_job_controller_has_let_go() {
        let job = job(4);
        let mut stopped = pod("hello-0", "Failed", "hello", ended(75, "Error", None));
        assert!(!was_taken(&stopped, Some(&job)), "nobody deletes it");
        stopped.metadata.deletion_timestamp = Some(at(1));
        assert!(was_taken(&stopped, Some(&job)) && !was_taken(&stopped, None));
        let mut failed = job.clone();
        failed.status = ended_job("FailureTarget", "PodFailurePolicy").status;
        assert!(!was_taken(&stopped, Some(&failed)), "the Job lets all go when it ends");
        stopped.metadata.finalizers = Some(vec![JOB_TRACKING.to_owned()]);
        assert!(!was_taken(&stopped, Some(&job)), "it was lost");
    }
}
