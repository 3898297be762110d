//! The size of a MiniCluster with `autoscale`, which follows from the demand of its queue.
//!
//! Only the Job has the present size. While the demand is unknown, the size stays.

use crate::controller::job_ext::parallelism;
use crate::controller::observe::Observed;
use crate::controller::observe::demand::Answer;
use crate::controller::observe::lifecycle::Lifecycle;
use flux_api::cluster::Cluster;
use flux_api::crd::Autoscale;
use flux_contract::AgentConfig;
use flux_contract::demand::Demand;

/// The size by demand, for the condition `Autoscaling`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AutoscaleDecision {
    pub(crate) bounds: Autoscale,
    pub(crate) size: u32,
    pub(crate) answer: Answer,
}

/// `cluster` with the size that its queue needs, if the agents, which run with `running`, count the demand; without a
/// readable configuration they are assumed to. A suspended Job without pods starts with the size of the specification.
pub(super) fn with_size(
    cluster: &Cluster,
    running: Option<&AgentConfig>,
    live: &Observed,
    answer: &Answer,
) -> Cluster {
    let mut cluster = cluster.clone();
    let Some(bounds) = &cluster.autoscale else { return cluster };
    let is_counted = running.is_none_or(|running| running.autoscale.is_some());
    let starts_anew = matches!(live.lifecycle, Lifecycle::Suspended(_));
    if let Some(job) = live.job.as_ref().filter(|_| is_counted && !starts_anew) {
        let registered = running.map_or(usize::MAX, |it| it.network.bootstrap.hosts().len());
        let registered = u32::try_from(registered).unwrap_or(u32::MAX);
        let now = u32::try_from(parallelism(job)).unwrap_or_default();
        cluster.size = size(bounds, now, answer.demand()).min(registered);
    }
    cluster
}

/// The size that follows `now`: it grows to the wanted number at once, and shrinks when pods were not wanted for a
/// while. It is within `bounds`, and at least 1: a MiniCluster without any pod is suspended instead.
fn size(bounds: &Autoscale, now: u32, demand: Option<Demand>) -> u32 {
    let size = match demand {
        Some(Demand { wanted, .. }) if wanted > now => wanted,
        Some(Demand { wanted, kept: Some(kept) }) => kept.max(wanted).min(now),
        Some(Demand { kept: None, .. }) | None => now,
    };
    size.max(bounds.min_size.unsigned_abs().max(1)).min(bounds.max_size.unsigned_abs())
}

/// The decided size of `cluster` with its bounds; `None` without `autoscale`.
pub(super) fn decide(cluster: &Cluster, answer: &Answer) -> Option<AutoscaleDecision> {
    let bounds = cluster.autoscale.clone()?;
    Some(AutoscaleDecision { bounds, size: cluster.size, answer: answer.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds(min_size: u32, max_size: u32) -> Autoscale {
        let (min_size, max_size) = (min_size.cast_signed(), max_size.cast_signed());
        Autoscale { min_size, max_size, idle_seconds: 60 }
    }

    proptest! {
        #[test]
        fn the_size_stays_within_its_bounds_and_keeps_wanted_pods(
            (min, max) in (1u32..9).prop_flat_map(|min| (Just(min), min..12)),
            now in 1u32..12,
            wanted in 0u32..14,
            kept in prop::option::of(0u32..14),
        ) {
            let next = size(&bounds(min, max), now, Some(Demand { wanted, kept }));
            prop_assert!((min..=max).contains(&next));
            prop_assert!(next >= wanted.min(max), "a job has its pods");
            let within = now.clamp(min, max);
            if next < within {
                prop_assert!(kept.is_some_and(|kept| kept <= next));
            }
            // The same demand does not change the size again.
            prop_assert_eq!(size(&bounds(min, max), next, Some(Demand { wanted, kept })), next);
        }
    }
}
