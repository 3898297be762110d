//! A MiniCluster that is suspended: its Job is, and its pods are gone.
//!
//! Who has suspended a Job resumes it: why the operator did is noted on the Job, and a Job that somebody else has
//! suspended (a queue, a person) is left to them.

use super::change::Change;
use crate::controller::job_ext::{has_pods, is_ending, is_suspended, noted_suspension};
use crate::controller::observe::Live;
use crate::controller::pod_ext::{broker_is_ready, has_failed};
use flux_api::cluster::Cluster;
use flux_api::objects::{BY_SPECIFICATION, suspend};
use flux_contract::demand::Demand;
use flux_contract::{AgentConfig, Workload};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Finalizer of a pod that the Job controller has yet to count.
const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// How the note begins on a Job that was suspended because no job needed it.
const IDLE: &str = "idle/";

/// True when a Job with this note was suspended because no job needed a pod.
pub(crate) fn is_idle(note: &str) -> bool {
    note.starts_with(IDLE)
}

/// Why the Job is to be suspended, if it is: as it is noted on the Job. One that no job needs, where no pod at all is an
/// allowed size, rests until its MiniCluster has another value of the annotation that resumes it.
pub(crate) fn reason(
    cluster: &Cluster,
    live: Option<&Job>,
    demand: Option<Demand>,
) -> Option<String> {
    if cluster.suspend {
        return Some(BY_SPECIFICATION.to_owned());
    }
    cluster.autoscale.as_ref().filter(|bounds| bounds.min_size == 0)?;
    let idle = format!("{IDLE}{}", cluster.resume);
    let rests = match live.and_then(noted_suspension) {
        Some(note) => note == idle,
        None => demand.is_some_and(|it| it.wanted == 0 && it.kept == Some(0)),
    };
    rests.then_some(idle)
}

/// Writes into `job`, the one that is to be, whether it is suspended, and why. A Job is resumed when the last of its
/// pods has gone: a new one would find the state of before.
pub(crate) fn set_suspend(reason: Option<String>, live: Option<&Job>, job: &mut Job) {
    let ours = live.is_some_and(|live| noted_suspension(live).is_some());
    let leaves = ours && live.is_some_and(has_pods);
    let reason = reason.or_else(|| leaves.then(|| BY_SPECIFICATION.to_owned()));
    match reason {
        Some(reason) => suspend(job, reason),
        None => job.spec.get_or_insert_default().suspend = ours.then_some(false),
    }
}

/// What becomes of the pod of `spec.services` while the Job is not there or is suspended; `None` while the Job runs.
/// No queue counts that pod, so it runs only while the Job does: it ends after the Job's pods, which may need it to
/// end well, and is made when the Job is there and runs. Who suspends a Job may do so while it is created.
pub(crate) fn services_pod(live: &Live) -> Option<Change<Pod>> {
    match (&live.job, &live.services_pod) {
        (Some(job), _) if !is_suspended(job) => None,
        (Some(job), Some(pod)) if !has_pods(job) => Some(Change::delete(pod)),
        (Some(_) | None, _) => Some(Change::Keep),
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
    use crate::controller::fixtures::{at, cluster, ended, ended_job, job, pod, running};
    use flux_api::objects::SUSPENDED_ANNOTATION;
    use serde_json::json;

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
            let reason = reason(&cluster(&json!({ "suspend": asked })), live, None);
            set_suspend(reason, live, &mut desired);
            assert_eq!(desired.spec.as_ref().unwrap().suspend, suspend);
            let note = noted_suspension(&desired);
            assert_eq!(note, (suspend == Some(true)).then_some(BY_SPECIFICATION));
        }
    }

    #[test]
    fn the_services_pod_runs_only_while_the_job_runs() {
        let services = pod("hello-services", "Running", "db", running());
        let delete = || Some(Change::delete(&services));
        for (job, change) in [
            (None, Some(Change::Keep)),
            (Some(job(4)), None),
            (Some(suspended(true, 2)), Some(Change::Keep)),
            (Some(suspended(true, 0)), delete()),
            (Some(suspended(false, 0)), delete()),
        ] {
            let services_pod = Some(services.clone());
            let live = Live { job: job.clone(), services_pod, ..Live::default() };
            assert_eq!(super::services_pod(&live), change, "{job:?}");
            let not_made = Live { services_pod: None, ..live };
            let kept = change.map(|_| Change::Keep);
            assert_eq!(super::services_pod(&not_made), kept, "{job:?}");
        }
    }

    #[test]
    fn an_idle_instance_stays_suspended_until_it_is_resumed() {
        let with = |least: u32, resume: &str| {
            let state = json!({ "state": { "path": "/state", "claimName": "state" } });
            let mut cluster = cluster(&json!({
                "interactive": true, "archive": { "path": "/state/a" },
                "autoscale": { "minSize": least, "maxSize": 4 },
                "containers": [{ "image": "app", "volumes": state }],
            }));
            resume.clone_into(&mut cluster.resume);
            cluster
        };
        let demand = |wanted, kept| Some(Demand { wanted, kept });
        let idle = demand(0, Some(0));
        for (least, demand, rests) in [
            (0, idle, true),
            (0, demand(0, Some(1)), false),
            (0, demand(0, None), false),
            (0, demand(1, Some(0)), false),
            (0, None, false),
            (1, idle, false),
        ] {
            let reason = reason(&with(least, ""), Some(&job(4)), demand);
            assert_eq!(reason.as_deref().is_some_and(is_idle), rests, "{least} {demand:?}");
        }
        let mut resting = suspended(true, 1);
        let note = reason(&with(0, "a"), Some(&job(4)), idle);
        resting.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), note.clone().unwrap());
        assert_eq!(reason(&with(0, "a"), Some(&resting), None), note, "it stays");
        for (least, resume) in [(0, "b"), (1, "a")] {
            let asked = with(least, resume);
            assert_eq!(reason(&asked, Some(&resting), None), None);
            // Its pods go first, and it is not held for another reason then.
            let mut desired = job(4);
            set_suspend(None, Some(&resting), &mut desired);
            assert_eq!(noted_suspension(&desired), Some(BY_SPECIFICATION));
            assert_eq!(reason(&asked, Some(&desired), None), None);
        }
    }

    #[test]
    fn a_suspension_removes_a_lead_that_the_job_controller_released() {
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
