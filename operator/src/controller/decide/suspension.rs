//! A MiniCluster that is suspended: its Job is, and its pods are gone.
//!
//! Who has suspended a Job resumes it: what the specification did is noted on the Job, and a Job that somebody
//! else has suspended (a queue, a person) is left to them.

use crate::controller::kube_ext::{
    SUSPENDED_ANNOTATION, broker_is_ready, has_pods, is_ending, is_suspended_by_specification,
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
pub(in crate::controller) fn set_suspend(asked: bool, live: Option<&Job>, job: &mut Job) {
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
pub(in crate::controller) fn was_taken(lead: &Pod, job: Option<&Job>) -> bool {
    let phase = lead.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_left = lead.metadata.deletion_timestamp.is_some()
        && !lead.finalizers().iter().any(|finalizer| finalizer == JOB_TRACKING);
    phase == Some("Failed") && is_left && job.is_some_and(|job| !is_ending(job))
}

/// True once the instance that was started with `config` has its command, and would bring it back from its
/// archive: its lead submits it as soon as it is ready.
pub(in crate::controller) fn has_submitted(config: &AgentConfig, live: &Live) -> bool {
    let is_up = |lead: &Pod| broker_is_ready(lead, config.cluster.name.as_str());
    let submits = matches!(config.workload, Workload::Interactive { submission: Some(_) });
    submits && config.archive.is_some() && live.pods.lead.as_ref().is_some_and(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::build::agent_config;
    use crate::controller::fixtures::{at, cluster, ended, ended_job, job, pod, running};
    use serde_json::json;

    fn directed(asked: bool, live: Option<&Job>) -> (Option<bool>, bool) {
        let mut wanted = job(0);
        set_suspend(asked, live, &mut wanted);
        (wanted.spec.as_ref().unwrap().suspend, is_suspended_by_specification(&wanted))
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

    /// A lead that ended with 75 because somebody deleted it.
    fn stopped() -> Pod {
        let mut pod = pod("hello-0", "Failed", "hello", ended(75, "Error", None));
        pod.metadata.deletion_timestamp = Some(at(1));
        pod
    }

    #[test]
    fn a_lead_that_a_suspension_has_taken_is_one_that_the_job_controller_has_let_go() {
        let job = job(4);
        assert!(was_taken(&stopped(), Some(&job)));
        let mut failed = job.clone();
        failed.status = ended_job("FailureTarget", "PodFailurePolicy").status;
        assert!(!was_taken(&stopped(), Some(&failed)), "the Job lets all go when it ends");
        assert!(!was_taken(&stopped(), None));
        let mut counted = stopped();
        counted.metadata.finalizers = Some(vec![JOB_TRACKING.to_owned()]);
        assert!(!was_taken(&counted, Some(&job)), "it was lost");
        let mut ended = stopped();
        ended.metadata.deletion_timestamp = None;
        assert!(!was_taken(&ended, Some(&job)));
    }

    #[test]
    fn a_command_is_in_the_archive_once_the_lead_that_has_one_is_ready() {
        let config = |spec| agent_config(&cluster(&spec), None);
        let mut lead = pod("hello-0", "Running", "hello", running());
        let mut live = Live::default();
        live.pods.lead = Some(lead.clone());
        let volumes = json!({ "state": { "path": "/state", "claimName": "state" } });
        let containers = json!([{ "image": "app", "command": "echo hello", "volumes": volumes }]);
        let archive = json!({ "path": "/state/a.tgz" });
        let kept = json!({ "archive": archive, "containers": containers });
        let mut interactive = kept.clone();
        interactive["interactive"] = json!(true);
        let interactive = config(interactive);
        assert!(!has_submitted(&interactive, &live), "it is not ready");
        lead.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = true;
        live.pods.lead = Some(lead);
        assert!(has_submitted(&interactive, &live));
        assert!(!has_submitted(&config(json!({ "interactive": true })), &live));
        assert!(!has_submitted(&config(kept), &live), "it runs once");
    }
}
