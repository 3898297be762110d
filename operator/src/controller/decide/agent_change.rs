//! What a changed specification means for brokers that already run.
//!
//! Each broker reads its configuration once. As long as the Job exists, the `ConfigMap` therefore
//! stays what the instance was started with, so that a pod made later fits the others; only what
//! follows the size is brought up to date.

use super::suspension;
use crate::cluster::Cluster;
use crate::controller::build::agent_config;
use crate::controller::kube_ext::{counts_by_index, has_pods, is_suspended, noted_generation};
use crate::controller::observe::Live;
use crate::controller::schedulers::queue;
use flux_contract::{AgentConfig, Bootstrap, Install, Workload};
use flux_protocol::Hostlist;
use k8s_openapi::api::batch::v1::Job;
use std::net::IpAddr;

/// A cluster cut to what the running instance can take.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constrained {
    /// The cluster with the hosts, and at most the size, that the instance was started for.
    pub(crate) cluster: Cluster,
    pub(crate) config: AgentConfig,
    /// What was asked for and cannot be had before the MiniCluster is started anew.
    pub(crate) refused: Vec<String>,
}

/// Cuts `cluster` to what the instance can take that runs with `running`, if one does. `generation` is the
/// MiniCluster's; `install` is how agent and view come into its pods.
pub(crate) fn constrain(
    cluster: &Cluster,
    lead: Option<IpAddr>,
    live: &Live,
    running: Option<AgentConfig>,
    generation: i64,
    install: Install,
) -> Constrained {
    let mut cluster = cluster.clone();
    let job = live.job.as_ref();
    let mut refused = queue::constrain(job, &mut cluster);
    let Some((job, running)) = job.zip(running) else {
        let config = AgentConfig { install, ..agent_config(&cluster, lead) };
        return Constrained { cluster, config, refused };
    };
    let submitted = running.submitted || suspension::has_submitted(&running, live);
    let unstarted_leads = unstarted_leads(&running, job, &live.pods.unstarted_leads);
    let running = AgentConfig { submitted, unstarted_leads, ..running };
    let limit = backoff_limit(job);
    let starts_anew = is_suspended(job) && !has_pods(job);
    let constrained = constrain_to(cluster, &running, limit, lead, starts_anew);
    if noted_generation(job) != Some(generation) {
        refused.extend(constrained.refused);
        return Constrained { refused, ..constrained };
    }
    if queue::decides_size(job) {
        return Constrained { refused, ..constrained };
    }
    // Nothing was asked for since: what differs is a newer operator's way to say the same.
    let mut config = running;
    config.network.lead_address = lead;
    Constrained { config, refused, ..constrained }
}

/// How many of the lead's pods have run nothing, as far as that is noted in `running`, or follows from `places`: how
/// many pods were there before each one that was not started. A pod counts only if all before it do, so that it is
/// enough to see each once. An agent without a command does not count them.
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

/// Cuts `cluster` to what an instance can take that was started with `live` and has `backoff_limit`; one that
/// `starts_anew`, as no broker runs, can have other hosts.
fn constrain_to(
    mut cluster: Cluster,
    live: &AgentConfig,
    backoff_limit: u32,
    lead: Option<IpAddr>,
    starts_anew: bool,
) -> Constrained {
    let mut refused = Vec::new();
    let hosts = live.network.bootstrap.hosts();
    let is_root = matches!(live.network.bootstrap, Bootstrap::Root { .. });
    if is_root && !starts_anew && cluster.flux.bootstrap.hosts() != hosts {
        let (size, max_size) = (cluster.size, cluster.max_size);
        let mut refuse = |field: &str, size: u32| {
            let registered = hosts.len();
            refused.push(format!(
                "{field}: Flux was started with {registered} hosts, not with {size}; a suspended MiniCluster \
                 can have others"
            ));
        };
        if !has_rank(&cluster, hosts, size) {
            refuse("spec.size", size);
            cluster.cut_to(live.cluster.size);
        } else if !has_rank(&cluster, hosts, max_size) {
            refuse("spec.maxSize", max_size);
        }
        let (Bootstrap::Root { hosts: own } | Bootstrap::Child { hosts: own, .. }) =
            &mut cluster.flux.bootstrap;
        own.clone_from(hosts);
    }
    if (cluster.backoff_limit > 0) != (backoff_limit > 0) {
        let reason = "a limit cannot become 0 or begin at 0, as the workers' agents know from their \
                      start whether a lead may follow the one that failed";
        refused.push(format!("spec.backoffLimit: {reason}"));
        cluster.backoff_limit = backoff_limit;
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
    }
    // Agents that were started without a deadline, perhaps by another release, do not look for one.
    cluster.deadline_by_agent = live.shutdown.deadline_seconds.is_some();
    let new = agent_config(&cluster, lead);
    let bootstrap = if starts_anew { &new } else { live }.network.bootstrap.clone();
    let mut config = updated(live, new);
    config.network.bootstrap = bootstrap;
    Constrained { cluster, config, refused }
}

fn has_rank(cluster: &Cluster, hosts: &Hostlist, size: u32) -> bool {
    hosts.rank(&cluster.name.pod_hostname(size.saturating_sub(1))).is_some()
}

/// `live` with the deadline and what follows the size taken from `new`.
fn updated(live: &AgentConfig, new: AgentConfig) -> AgentConfig {
    let mut config = live.clone();
    config.broker.quorum = new.broker.quorum;
    config.shutdown.deadline_seconds = new.shutdown.deadline_seconds;
    config.network.lead_address = new.network.lead_address;
    // Where it was removed, nobody asks.
    config.autoscale = live.autoscale.clone().map(|live| new.autoscale.unwrap_or(live));
    if new.cluster.size != live.cluster.size {
        config.workload = with_flags_of(&live.workload, &new.workload);
    }
    config.cluster = new.cluster;
    config
}

/// The workload of `live` with the flags of `new`, where both are of one kind.
fn with_flags_of(live: &Workload, new: &Workload) -> Workload {
    let mut result = live.clone();
    if let (Workload::Submit { submission }, Workload::Submit { submission: new })
    | (
        Workload::Interactive { submission: Some(submission) },
        Workload::Interactive { submission: Some(new) },
    ) = (&mut result, new)
    {
        submission.flags.clone_from(&new.flags);
    } else if let (Workload::Batch { flags, .. }, Workload::Batch { flags: new, .. }) =
        (&mut result, new)
    {
        flags.clone_from(new);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::cluster;
    use serde_json::json;

    #[test]
    fn a_quorum_of_more_brokers_than_the_refused_size_leaves_is_cut() {
        let live = agent_config(&cluster(&json!({})), None);
        let asked = cluster(&json!({ "size": 9, "minSize": 6 }));
        let cut = constrain_to(asked, &live, 0, None, false);
        assert_eq!((cut.cluster.size, cut.config.broker.quorum), (4, None));
        let told = "spec.size: Flux was started with 4 hosts, not with 9; a suspended MiniCluster can have \
                    others";
        assert_eq!(cut.refused, [told]);
        let asked = cluster(&json!({ "size": 9, "minSize": 2 }));
        assert_eq!(constrain_to(asked, &live, 0, None, false).config.broker.quorum, Some(2));
    }

    #[test]
    fn who_counts_what_the_queue_needs_was_told_so_at_the_start() {
        let with = |autoscale| cluster(&json!({ "maxSize": 9, "autoscale": autoscale }));
        let (without, small) = (with(json!(null)), with(json!({ "maxSize": 6 })));
        let started = |cluster: &Cluster| agent_config(cluster, None);
        let added = constrain_to(small.clone(), &started(&without), 0, None, false);
        assert!(added.refused[0].starts_with("spec.autoscale: the agents were started without"));
        assert_eq!((added.cluster.autoscale, added.config.autoscale), (None, None));
        let large = with(json!({ "maxSize": 8 }));
        let changed = constrain_to(large, &started(&small), 0, None, false);
        assert_eq!(changed.refused, [""; 0]);
        assert_eq!(changed.config.autoscale.unwrap().max_size, 8);
        let removed = constrain_to(without, &started(&small), 0, None, false);
        assert_eq!(removed.refused, [""; 0]);
        assert_eq!(removed.config.autoscale, started(&small).autoscale, "it may be given again");
    }

    #[test]
    fn brokers_that_form_a_tree_keep_their_names() {
        for (size, refused) in [(255, 0), (256, 1)] {
            let started = agent_config(&cluster(&json!({ "size": size })), None);
            assert_eq!(started.broker.topology.is_some(), refused > 0);
            let asked = cluster(&json!({ "size": size, "flux": { "minimalService": true } }));
            assert_eq!(agent_config(&asked, None).broker.topology, None);
            let cut = constrain_to(asked, &started, 0, None, false);
            assert_eq!((cut.refused.len(), cut.cluster.minimal_service), (refused, refused == 0));
            assert_eq!(cut.config.broker.topology, started.broker.topology);
        }
    }

    #[test]
    fn leads_that_were_not_started_count_as_long_as_all_before_them_do_also_when_they_are_gone() {
        let mut live = agent_config(&cluster(&json!({})), None);
        let mut job = Job::default();
        job.spec.get_or_insert_default().backoff_limit_per_index = Some(6);
        for (noted, places, count) in [
            (0, &[][..], 0),
            (0, &[0, 1], 2),
            (0, &[1], 0),
            (1, &[0], 1),
            (1, &[1], 2),
            (1, &[2], 1),
        ] {
            live.unstarted_leads = noted;
            assert_eq!(unstarted_leads(&live, &job, places), count, "{noted} {places:?}");
        }
    }

    #[test]
    fn an_instance_that_starts_anew_can_have_more_hosts() {
        let live = agent_config(&cluster(&json!({})), None);
        let asked = cluster(&json!({ "size": 6, "maxSize": 9 }));
        let anew = constrain_to(asked, &live, 0, None, true);
        assert_eq!((anew.refused, anew.cluster.size), (vec![], 6));
        assert_eq!(anew.config.network.bootstrap.hosts().to_string(), "hello-[0-8]");
    }
}
