//! Suspends and resumes the Job of a MiniCluster.
//!
//! Only the actor that has suspended a Job resumes it. The operator notes on the Job why it has suspended it, and
//! leaves a Job that a queue or a person has suspended as it is.

use super::change::Change;
use crate::controller::job_ext::{IDLE_PREFIX, has_pods, noted_suspension};
use crate::controller::observe::Observed;
use crate::controller::observe::lifecycle::Lifecycle;
use crate::controller::pod_ext::broker_is_ready;
use flux_api::cluster::Cluster;
use flux_api::objects::{BY_SPECIFICATION, suspend};
use flux_contract::demand::Demand;
use flux_contract::{AgentConfig, Workload};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

/// Why the Job must be suspended, as noted on it; `None` if it must run. With `autoscale.minSize` 0 a Job that no job
/// of Flux needs stays suspended until the resume annotation of the MiniCluster gets another value.
pub(crate) fn reason(
    cluster: &Cluster,
    live: Option<&Job>,
    demand: Option<Demand>,
) -> Option<String> {
    if cluster.suspend {
        return Some(BY_SPECIFICATION.to_owned());
    }
    cluster.autoscale.as_ref().filter(|bounds| bounds.min_size == 0)?;
    let idle = format!("{IDLE_PREFIX}{}", cluster.resume);
    let stays_idle = match live.and_then(noted_suspension) {
        Some(note) => note == idle,
        None => demand.is_some_and(|it| it.wanted == 0 && it.kept == Some(0)),
    };
    stays_idle.then_some(idle)
}

/// Sets in the desired `job` whether it is suspended, and why. A Job is resumed only after its last pod is gone,
/// because a new instance would find the state from before the pods dumped theirs.
pub(crate) fn set_suspend(reason: Option<String>, live: Option<&Job>, job: &mut Job) {
    let ours = live.is_some_and(|live| noted_suspension(live).is_some());
    let leaves = ours && live.is_some_and(has_pods);
    let reason = reason.or_else(|| leaves.then(|| BY_SPECIFICATION.to_owned()));
    match reason {
        Some(reason) => suspend(job, reason),
        None => job.spec.get_or_insert_default().suspend = ours.then_some(false),
    }
}

/// The change of the pod of `spec.services` while there is no Job or the Job is suspended; `None` while the Job runs.
/// No queue counts that pod, so it must run only while the Job does: it is created after the Job has started, because
/// the Job may be suspended at its creation, and deleted after the Job's pods, which may need it until their end.
pub(crate) fn services_pod(live: &Observed) -> Option<Change<Pod>> {
    use Lifecycle::{New, Suspended, Suspending};
    match (&live.lifecycle, &live.services_pod) {
        (Suspended(_), Some(pod)) => Some(Change::delete(pod)),
        (lifecycle, _) => {
            matches!(lifecycle, New | Suspending | Suspended(_)).then_some(Change::Keep)
        }
    }
}

/// True once the instance that was started with `config` has submitted its command, which the next one restores from
/// the archive. The lead submits it as soon as it is ready.
pub(crate) fn has_submitted(config: &AgentConfig, live: &Observed) -> bool {
    let is_up = |lead: &Pod| broker_is_ready(lead, config.cluster.name.as_str());
    let submits = matches!(config.workload, Workload::Interactive { submission: Some(_) });
    submits && config.archive.is_some() && live.pods.lead.as_ref().is_some_and(is_up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{cluster, job, observed, pod, running};
    use flux_api::objects::SUSPENDED_ANNOTATION;
    use kube::ResourceExt as _;
    use serde_json::json;

    /// A suspended Job with so many pods; the operator has suspended it if it is `ours`.
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
            // A queue may suspend the Job at its creation, or another actor has suspended it.
            (false, None, None),
            (false, Some(&job(4)), None),
            (false, Some(&suspended(false, 0)), None),
            // With and without pods that have not ended.
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
            let live = Observed { services_pod, ..observed(job.clone()) };
            assert_eq!(super::services_pod(&live), change, "{job:?}");
            let not_made = Observed { services_pod: None, ..live };
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
        for (least, demand, expected) in [
            (0, idle, true),
            (0, demand(0, Some(1)), false),
            (0, demand(0, None), false),
            (0, demand(1, Some(0)), false),
            (0, None, false),
            (1, idle, false),
        ] {
            let reason = reason(&with(least, ""), Some(&job(4)), demand);
            assert_eq!(
                reason.is_some_and(|it| it.starts_with(IDLE_PREFIX)),
                expected,
                "{least} {demand:?}"
            );
        }
        let mut idle_job = suspended(true, 1);
        let note = reason(&with(0, "a"), Some(&job(4)), idle);
        idle_job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), note.clone().unwrap());
        assert_eq!(reason(&with(0, "a"), Some(&idle_job), None), note, "it stays suspended");
        for (least, resume) in [(0, "b"), (1, "a")] {
            let asked = with(least, resume);
            assert_eq!(reason(&asked, Some(&idle_job), None), None);
            // It is resumed after its pods have ended.
            let mut desired = job(4);
            set_suspend(None, Some(&idle_job), &mut desired);
            assert_eq!(noted_suspension(&desired), Some(BY_SPECIFICATION));
            assert_eq!(reason(&asked, Some(&desired), None), None);
        }
    }
}
