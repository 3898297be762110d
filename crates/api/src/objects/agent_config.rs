//! Builds the agents' configuration from the specification.

use super::exclusive::exclusive_cpus;
use crate::cluster::Cluster;
use flux_contract::{
    AgentConfig, Autoscale, Bootstrap, Broker, ClusterIdentity, Install, Layout, Network,
    OVERLAY_PORT, PRIVATE_MOUNT, Shutdown, View, WorkerPolicy,
};
use std::net::IpAddr;

/// Seconds that pods may take to start: an autoscaler may have to add nodes, and a kubelet to pull large images. A
/// worker waits this long for the lead, and the Job's deadline, which loses logs, is this much later than the run's.
pub(super) const START_SECONDS: u64 = 1800;

/// The agent's configuration; `lead_address` is the address of the lead's Service.
pub fn agent_config(cluster: &Cluster, lead_address: Option<IpAddr>) -> AgentConfig {
    AgentConfig {
        version: AgentConfig::VERSION,
        cluster: ClusterIdentity {
            name: cluster.name.clone(),
            namespace: cluster.namespace.clone(),
            size: cluster.size,
        },
        layout: Layout::new(cluster.flux.view.mount_path.clone()).with_private(PRIVATE_MOUNT),
        // The operator sets the method: `objects::install`.
        install: Install::Copy,
        view: View {
            enabled: cluster.flux.view.enabled,
            python_path: cluster.flux.view.python_path.clone(),
        },
        user: cluster.runner.user.clone(),
        network: network(cluster, lead_address),
        broker: Broker { quorum: quorum(cluster), ..cluster.flux.broker.clone() },
        worker: worker_policy(cluster),
        workload: cluster.runner.workload.clone(),
        logging: cluster.logging,
        shutdown: shutdown(cluster),
        hooks: cluster.runner.hooks.clone(),
        archive: cluster.archive.clone(),
        autoscale: cluster.autoscale.as_ref().map(|autoscale| Autoscale {
            max_size: autoscale.max_size.unsigned_abs(),
            idle_seconds: autoscale.idle_seconds.unsigned_abs().into(),
        }),
        // The operator adds the fingerprints of the MiniCluster's tokens.
        rest: cluster.flux.rest.clone(),
        munge: cluster.flux.munge_secret.is_some(),
        environment: cluster.flux.environment.clone(),
        exclusive_cpus: exclusive_cpus(cluster),
        submitted: false,
        unstarted_leads: 0,
        sidecars: cluster
            .sidecars
            .iter()
            .filter_map(|sidecar| {
                let wrapped = sidecar.wrapped.clone()?;
                Some((sidecar.container.name.clone(), wrapped))
            })
            .collect(),
    }
}

fn shutdown(cluster: &Cluster) -> Shutdown {
    let deadline = cluster.deadline_by_agent.then_some(cluster.deadline_seconds);
    Shutdown {
        grace_seconds: cluster.pod.grace_seconds,
        deadline_seconds: deadline.map(i64::unsigned_abs),
        idle_seconds: cluster.idle_deadline_seconds,
    }
}

fn network(cluster: &Cluster, lead_address: Option<IpAddr>) -> Network {
    Network {
        headless_service: cluster.headless_name.clone(),
        port: OVERLAY_PORT,
        // If another cluster has the lead, no pod is behind the lead's Service here.
        lead_address: lead_address.filter(|_| has_lead(cluster)),
        bootstrap: cluster.flux.bootstrap.clone(),
        lead_deadline_seconds: START_SECONDS,
    }
}

/// Number of brokers that must be online before the command runs; `None` if it is all, which is Flux's own default
/// (flux-broker-attributes(7), `broker.quorum`), or if another cluster has rank 0, which alone uses it.
fn quorum(cluster: &Cluster) -> Option<u32> {
    let wanted = cluster.min_size.unwrap_or(cluster.size);
    let all = u32::try_from(cluster.flux.bootstrap.hosts().len()).unwrap_or(u32::MAX);
    (has_lead(cluster) && wanted != all).then_some(wanted)
}

const fn has_lead(cluster: &Cluster) -> bool {
    matches!(cluster.flux.bootstrap, Bootstrap::Root { .. })
}

const fn worker_policy(cluster: &Cluster) -> WorkerPolicy {
    if cluster.flux.complete_workers {
        WorkerPolicy::LeaveAlways
    } else if cluster.backoff_limit > 0 {
        WorkerPolicy::Rejoin
    } else {
        WorkerPolicy::LeaveWhenDone
    }
}
