//! Suspends and resumes the Job of a MiniCluster.
//!
//! Only the actor that has suspended a Job resumes it. The operator notes on the Job why it has suspended it, and
//! leaves a Job that a queue or a person has suspended as it is.

use super::change::Change;
use crate::controller::job_ext::{IDLE_PREFIX, has_pods, noted_suspension};
use crate::controller::observe::Observed;
use crate::controller::observe::lifecycle::{Lifecycle, Suspender};
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

/// True while the Job has no pods and gets none before the operator sees it again. Then Services with an address would
/// only take addresses: a range has as few as 4,096, and a queue may hold more MiniClusters. `reason` is why the Job
/// must be suspended.
pub(crate) fn needs_no_address(live: &Observed, cluster: &Cluster, reason: Option<&str>) -> bool {
    use Lifecycle::{Degraded, Ended, Ending, Failing, New, Pending, Running, Starting};
    match &live.lifecycle {
        New => reason.is_some() || cluster.begins_suspended(),
        Lifecycle::Suspended(by) => {
            reason.is_some() || matches!(by, Suspender::Queue(_) | Suspender::Other)
        }
        Lifecycle::Suspending
        | Pending
        | Starting
        | Running
        | Degraded
        | Ending
        | Failing
        | Ended(_) => false,
    }
}

/// True once the instance that was started with `config` has submitted its command, which the next one restores from
/// the archive. The lead submits it as soon as it is ready.
pub(crate) fn has_submitted(config: &AgentConfig, live: &Observed) -> bool {
    let is_up = |lead: &Pod| broker_is_ready(lead, config.cluster.name.as_str());
    let submits = matches!(config.workload, Workload::Interactive { submission: Some(_) });
    submits && config.archive.is_some() && live.pods.lead.as_ref().is_some_and(is_up)
}
