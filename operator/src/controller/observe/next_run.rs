//! A MiniCluster that has finished and is to run again, because `spec.runId` has another value.
//!
//! The run that has ended is cleared first: its Job goes with all pods, so that none of them meets those of the next run.
//! The operator has no right to delete Jobs; Kubernetes does that for it, as after any time to live of a Job.

use super::lifecycle::Lifecycle;
use crate::controller::job_ext::is_finished;
use crate::controller::run_record::RunRecord;
use flux_api::cluster::{Cluster, RUN_ID_ANNOTATION};
use flux_api::crd::MiniClusterStatus;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

/// True if another run is to follow that of `job`.
pub(crate) fn is_asked_for(cluster: &Cluster, job: &Job) -> bool {
    cluster.asks_for_run_after(run_id(job))
}

/// `spec.runId` with which `job` was created.
pub(crate) fn run_id(job: &Job) -> Option<&str> {
    job.annotations().get(RUN_ID_ANNOTATION).map(String::as_str)
}

/// True if the run of `job` is to be cleared: another one is to follow, nothing of this one is left to do, and record
/// and `status` have its end.
pub(super) fn clears(
    cluster: &Cluster,
    job: &Job,
    lifecycle: &Lifecycle,
    status: Option<&MiniClusterStatus>,
) -> bool {
    let Some(record) = lifecycle.record().filter(|run| run.end.is_some()) else { return false };
    is_finished(job)
        && is_asked_for(cluster, job)
        && status.is_some_and(|status| is_reported(status, record))
}

/// Once the Job is being cleared, only the history of `status` has the end of the run.
fn is_reported(status: &MiniClusterStatus, record: &RunRecord) -> bool {
    let last = status.history.first();
    status.is_over() || last.is_some_and(|last| last.start_time == record.start_time)
}
