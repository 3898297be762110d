//! What a changed specification means for brokers that already run.
//!
//! Each broker reads its configuration once. As long as the Job exists, the `ConfigMap` therefore
//! stays what the instance was started with, so that a pod made later fits the others; only what
//! follows the size is brought up to date.

use super::build::agent_config;
use crate::cluster::Cluster;
use flux_contract::{AgentConfig, Bootstrap, Hostlist, Workload};
use std::net::IpAddr;

/// A cluster cut to what the running instance can take.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The cluster with the hosts, and at most the size, that the instance was started for.
    pub cluster: Cluster,
    /// What goes into the `ConfigMap`.
    pub config: AgentConfig,
    /// What was asked for and cannot be had before the MiniCluster is started anew.
    pub refused: Vec<String>,
}

/// Fits `cluster` to an instance that was started with `live`.
pub fn started(mut cluster: Cluster, live: &AgentConfig, lead: Option<IpAddr>) -> Started {
    let mut refused = Vec::new();
    let hosts = live.network.bootstrap.hosts();
    if matches!(live.network.bootstrap, Bootstrap::Root { .. }) && cluster.flux.hosts != *hosts {
        if !has_rank(&cluster, hosts, cluster.size) {
            refused.push(format!(
                "size {}: Flux was started with {} hosts",
                cluster.size,
                hosts.len()
            ));
            cluster.size = live.cluster.size;
        } else if !has_rank(&cluster, hosts, cluster.max_size) {
            refused.push(format!(
                "maxSize {}: Flux was started with {} hosts",
                cluster.max_size,
                hosts.len()
            ));
        }
        cluster.flux.hosts = hosts.clone();
    }
    let mut config = agent_config(&cluster, lead);
    if config.cluster.size == live.cluster.size {
        refused.extend(differing_sections(&config, live).into_iter().map(str::to_owned));
    } else {
        // The flags name the size; a batch script or a prefix does not.
        refused.extend(
            differing_sections(&config, live)
                .into_iter()
                .filter(|section| *section != WORKLOAD)
                .map(str::to_owned),
        );
    }
    let workload = with_flags_of(&live.workload, &config.workload);
    config = AgentConfig { workload, ..restored(config, live) };
    Started { cluster, config, refused }
}

/// True when the last of `size` pods is among `hosts`.
fn has_rank(cluster: &Cluster, hosts: &Hostlist, size: u32) -> bool {
    hosts.rank(&cluster.name.pod_hostname(size.saturating_sub(1))).is_some()
}

/// `live` with what follows the size taken from `new`.
fn restored(new: AgentConfig, live: &AgentConfig) -> AgentConfig {
    let mut config = live.clone();
    config.cluster = new.cluster;
    config.broker.quorum = new.broker.quorum;
    config.network.lead_address = new.network.lead_address;
    config
}

/// The workload of `live` with the flags of `new`, where both are of one kind.
fn with_flags_of(live: &Workload, new: &Workload) -> Workload {
    let mut result = live.clone();
    match (&mut result, new) {
        (Workload::Submit { submission }, Workload::Submit { submission: new })
        | (
            Workload::Interactive { submission: Some(submission) },
            Workload::Interactive { submission: Some(new) },
        ) => submission.flags.clone_from(&new.flags),
        (Workload::Batch { flags, .. }, Workload::Batch { flags: new, .. }) => {
            flags.clone_from(new);
        }
        (
            Workload::Submit { .. }
            | Workload::Interactive { .. }
            | Workload::Launcher { .. }
            | Workload::Batch { .. }
            | Workload::Diagnostics {},
            _,
        ) => {}
    }
    result
}

const WORKLOAD: &str = "the command";

/// The parts of the specification that say something else than the running instance was told.
fn differing_sections(new: &AgentConfig, live: &AgentConfig) -> Vec<&'static str> {
    let AgentConfig {
        version: _,
        cluster: _,
        layout,
        view,
        user,
        network,
        broker,
        worker,
        workload,
        logging,
        hooks,
        archive,
        munge,
        environment,
        sidecars,
    } = new;
    let mut broker = broker.clone();
    broker.quorum = live.broker.quorum;
    let same_service = network.headless_service == live.network.headless_service;
    let same_lead = network.bootstrap == live.network.bootstrap;
    [
        (*layout == live.layout && *view == live.view, "flux.container"),
        (*user == live.user, "the user of Flux"),
        (same_service, "network.headlessName"),
        (same_lead, "flux.bursting"),
        (broker == live.broker, "the broker's options in flux"),
        (*worker == live.worker, "backoffLimit or flux.completeWorkers"),
        (*workload == live.workload, WORKLOAD),
        (*logging == live.logging, "logging"),
        (*hooks == live.hooks, "commands"),
        (*archive == live.archive, "archive"),
        (*munge == live.munge, "flux.mungeSecret"),
        (*environment == live.environment, "flux.environment"),
        (*sidecars == live.sidecars, "the sidecars' commands"),
    ]
    .into_iter()
    .filter_map(|(same, section)| (!same).then_some(section))
    .collect()
}
