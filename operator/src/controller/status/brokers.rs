//! How many brokers there are.

use super::end::Phase;
use super::facts::Facts;
use crate::crd::MiniClusterStatus;
use k8s_openapi::api::batch::v1::Job;

/// Brokers that are ready, of how many.
pub(super) struct Brokers {
    pub(super) ready: i32,
    pub(super) size: i32,
}

impl Brokers {
    /// From the Job; its size from the status of the same run where the Job is gone.
    pub(super) fn of(
        facts: &Facts<'_>,
        phase: &Phase,
        old_run: Option<&MiniClusterStatus>,
    ) -> Self {
        let job_status = facts.live.job.as_ref().and_then(|job| job.status.as_ref());
        let ready = job_status.and_then(|status| status.ready).unwrap_or_default();
        let kept = || old_run.map(|old| old.size);
        let size = |job: &Job| job.spec.as_ref().and_then(|spec| spec.parallelism);
        let size = facts.live.job.as_ref().map_or_else(kept, size).unwrap_or_default();
        // The Job counts its ready pods a moment later than the lead is one of them.
        let least = i32::from(matches!(phase, Phase::Running(_)));
        let ready = if phase.is_over() { 0 } else { ready.max(least) };
        Self { ready, size }
    }

    /// What the message says of missing ones: why a pod is not ready, it alone knows.
    pub(super) fn lacking(&self) -> Option<String> {
        let text = || format!("{}: the logs of the other pods say why", self.message());
        (self.ready < self.size).then(text)
    }

    /// Both numbers, for people.
    pub(super) fn message(&self) -> String {
        format!("{} of {} brokers are ready", self.ready, self.size)
    }
}
