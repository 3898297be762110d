//! Which parts of a changed specification an instance that already runs can take.
//!
//! A broker reads its configuration only at its start. So while the Job exists the `ConfigMap` keeps the configuration
//! that the instance was started with, and a later pod fits the others; only values that follow from the size change.

use super::instance_api::may_rotate;
use super::queue;
use super::suspension;
use crate::controller::job_ext::{counts_by_index, noted_generation};
use crate::controller::observe::Observed;
use crate::controller::observe::lifecycle::Lifecycle;
use flux_api::cluster::{Cluster, set_nodes};
use flux_api::crd::Autoscale;
use flux_api::objects::agent_config;
use flux_contract::{AgentConfig, Bootstrap, Install, Workload};
use flux_protocol::Hostlist;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use std::net::IpAddr;

/// Fields that decide which clusters an instance is made of.
const PLACES: [&str; 2] = ["spec.flux.bursting", "spec.flux.leadBroker"];

/// The part of a specification that the running instance can take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApplicableSpec {
    /// The cluster with the hosts that the instance was started with, and at most as many pods.
    pub(crate) cluster: Cluster,
    pub(crate) config: AgentConfig,
    /// The changes that need a new instance.
    pub(crate) refused: Vec<String>,
}

/// Limits `cluster` to what the running instance can take, if there is one. `generation` is the
/// MiniCluster's; `install` is how agent and view come into its pods.
pub(crate) fn limit_to_running(
    cluster: &Cluster,
    lead: Option<IpAddr>,
    live: &Observed,
    generation: i64,
    install: Install,
) -> ApplicableSpec {
    let mut cluster = cluster.clone();
    let job = live.job.as_ref();
    let mut refused = queue::limit_to_queue(job, &mut cluster);
    let Some((job, running)) = job.zip(live.config.clone()) else {
        let config = AgentConfig { install, ..agent_config(&cluster, lead) };
        return ApplicableSpec { cluster, config, refused };
    };
    let submitted = running.submitted || suspension::has_submitted(&running, live);
    let unstarted_leads = unstarted_leads(&running, job, &live.pods.unstarted_leads);
    let running = AgentConfig { submitted, unstarted_leads, ..running };
    let limit = backoff_limit(job);
    cluster.keep_services(job, &running);
    let fixed = cluster.fixed_fields.changed_since(job.annotations());
    let is_moved = fixed.iter().any(|field| PLACES.iter().any(|it| field.starts_with(it)));
    let starts_anew = matches!(live.lifecycle, Lifecycle::Suspended(_)) && !is_moved;
    let limited = limit_to_config(cluster, &running, limit, lead, starts_anew);
    if noted_generation(job) != Some(generation) {
        refused.extend(limited.refused);
        return ApplicableSpec { refused, ..limited };
    }
    if queue::decides_size(job) {
        return ApplicableSpec { refused, ..limited };
    }
    // The specification was not edited, so any difference comes from a newer release of the operator.
    let mut config = running;
    config.network.lead_address = lead;
    ApplicableSpec { config, refused, ..limited }
}

/// Number of the lead's pods that were never started: the noted number, plus those in `places`, which are the numbers
/// of pods before each unstarted one. A pod counts only if all pods before it count, so it is enough that the
/// operator sees each once. An agent without a command does not use the number.
fn unstarted_leads(running: &AgentConfig, job: &Job, places: &[u32]) -> u32 {
    let noted = running.unstarted_leads;
    let workload = &running.workload;
    let runs_none =
        matches!(workload, Workload::Interactive { submission: None } | Workload::Diagnostics {});
    if runs_none || !counts_by_index(job) {
        return noted;
    }
    places.iter().fold(noted, |count, place| if *place == count { count + 1 } else { count })
}

fn backoff_limit(job: &Job) -> u32 {
    let spec = job.spec.as_ref().filter(|_| !counts_by_index(job));
    spec.and_then(|spec| spec.backoff_limit).unwrap_or_default().unsigned_abs()
}

/// Limits `cluster` to what an instance that was started with `live` and has `backoff_limit` can take. An instance
/// that `starts_anew`, because no broker runs, can have other hosts.
fn limit_to_config(
    mut cluster: Cluster,
    live: &AgentConfig,
    backoff_limit: u32,
    lead: Option<IpAddr>,
    starts_anew: bool,
) -> ApplicableSpec {
    let mut refused = Vec::new();
    let hosts = live.network.bootstrap.hosts();
    let is_root = matches!(live.network.bootstrap, Bootstrap::Root { .. });
    if is_root && !starts_anew && cluster.flux.bootstrap.hosts() != hosts {
        let (size, max_size) = (cluster.size, cluster.max_size);
        let mut refuse = |field: &str, size: u32| {
            let registered = hosts.len();
            refused.push(format!(
                "{field}: Flux was started with {registered} hosts, not with {size}; change it alone \
                 while the MiniCluster is suspended"
            ));
        };
        if !has_rank(&cluster, hosts, size) {
            refuse("spec.size", size);
            cluster.reduce_size(live.cluster.size);
        } else if !has_rank(&cluster, hosts, max_size) {
            refuse("spec.maxSize", max_size);
        }
    }
    if !starts_anew {
        cluster.flux.bootstrap.clone_from(&live.network.bootstrap);
        limit_to_hosts(&mut cluster, hosts.len());
    }
    if (cluster.backoff_limit > 0) != (backoff_limit > 0) {
        let reason = "a limit cannot become 0 or begin at 0, as the workers' agents know from their \
                      start whether a lead may follow the one that failed";
        refused.push(format!("spec.backoffLimit: {reason}"));
        cluster.backoff_limit = backoff_limit;
    }
    if let (Some(rest), Some(running)) = (&mut cluster.flux.rest, &live.rest)
        && rest.rotation != running.rotation
        && !may_rotate(running)
    {
        let reason = "the agents of this run are of a release that reads its token once";
        refused.push(format!("spec.flux.rest.rotation: {reason}"));
        rest.rotation.clone_from(&running.rotation);
    }
    if cluster.minimal_service && live.broker.topology.as_deref().is_some_and(|it| it != "custom") {
        let reason = "the brokers were started as a tree, in which they reach each other by name";
        refused.push(format!("spec.flux.minimalService: {reason}"));
        cluster.minimal_service = false;
    }
    if cluster.autoscale.is_some() && live.autoscale.is_none() {
        let reason = "the agents were started without it, and do not count what the queue needs";
        refused.push(format!("spec.autoscale: {reason}"));
        cluster.autoscale = None;
        let quorum = live.broker.quorum.unwrap_or(live.cluster.size);
        cluster.min_size = Some(quorum.min(cluster.size));
    }
    // Agents that were started without a deadline, perhaps by another release, never read one.
    cluster.deadline_by_agent = live.shutdown.deadline_seconds.is_some();
    let config = merge_running_config(live, agent_config(&cluster, lead));
    ApplicableSpec { cluster, config, refused }
}

/// Limits the quorum and the bounds of a size by demand to the number of hosts that Flux was started with.
fn limit_to_hosts(cluster: &mut Cluster, hosts: usize) {
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
    cluster.min_size = cluster.min_size.map(|least| least.min(hosts));
    if let Some(Autoscale { min_size, max_size, .. }) = &mut cluster.autoscale {
        let hosts = i32::try_from(hosts).unwrap_or(i32::MAX);
        (*min_size, *max_size) = ((*min_size).min(hosts), (*max_size).min(hosts));
    }
}

fn has_rank(cluster: &Cluster, hosts: &Hostlist, size: u32) -> bool {
    hosts.rank(&cluster.name.pod_hostname(size.saturating_sub(1))).is_some()
}

/// `live` with the deadline of `new` and the values of `new` that follow from the size.
fn merge_running_config(live: &AgentConfig, new: AgentConfig) -> AgentConfig {
    let mut config = live.clone();
    config.broker.quorum = new.broker.quorum;
    config.shutdown.deadline_seconds = new.shutdown.deadline_seconds;
    config.network.lead_address = new.network.lead_address;
    config.network.bootstrap = new.network.bootstrap;
    // If `spec.autoscale` was removed, the operator no longer asks the agents, which keep their settings.
    config.autoscale = live.autoscale.clone().map(|live| new.autoscale.unwrap_or(live));
    if new.cluster.size != live.cluster.size {
        set_nodes(&mut config.workload, new.cluster.size);
    }
    config.cluster = new.cluster;
    config
}
