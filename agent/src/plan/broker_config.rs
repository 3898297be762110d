//! `broker.toml` (flux-config(5)): typed, so that it is never text pasted together.

use super::{PlanError, Pod};
use flux_contract::Bootstrap;
use serde::Serialize;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

/// The broker's configuration. Every pod of an instance gets the same hosts in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerDocument {
    access: Access,
    bootstrap: BootstrapTable,
    resource: Resource,
    #[serde(rename = "sched-fluxion-qmanager")]
    fluxion: Fluxion,
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<Modules>,
}

/// flux-config-access(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Access {
    /// People who enter the pod as another user may look.
    allow_guest_user: bool,
    /// The agent, and people who enter as root, may ask and shut down.
    allow_root_owner: bool,
}

/// flux-config-bootstrap(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct BootstrapTable {
    curve_cert: PathBuf,
    default_port: u16,
    default_bind: String,
    default_connect: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    enable_ipv6: bool,
    hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Host {
    #[serde(rename = "host")]
    names: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect: Option<String>,
}

/// flux-config-resource(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Resource {
    path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Fluxion {
    queue_policy: String,
}

/// flux-modprobe(1): which module provides a service that several could.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Modules {
    alternatives: Alternatives,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Alternatives {
    sched: &'static str,
    feasibility: &'static str,
}

impl BrokerDocument {
    /// The document as TOML.
    pub(crate) fn text(&self) -> Result<String, PlanError> {
        toml::to_string(self).map_err(|source| PlanError::Render { source })
    }

    /// The same document, with the lead reached by its name instead of its Service's address.
    pub(crate) fn with_lead_by_name(mut self) -> Self {
        if let Some(lead) = self.bootstrap.hosts.first_mut() {
            lead.connect = None;
        }
        self.bootstrap.enable_ipv6 = false;
        self
    }
}

/// The broker's configuration, unless the user gave all of it.
pub(super) fn document(pod: Pod<'_>) -> Option<BrokerDocument> {
    let config = pod.config;
    if config.broker.custom_config.is_some() {
        return None;
    }
    let simple = Modules {
        alternatives: Alternatives { sched: "sched-simple", feasibility: "sched-simple" },
    };
    Some(BrokerDocument {
        access: Access { allow_guest_user: true, allow_root_owner: true },
        bootstrap: bootstrap(pod),
        resource: Resource { path: config.layout.resource_file() },
        fluxion: Fluxion { queue_policy: config.broker.queue_policy.clone() },
        modules: config.broker.simple_scheduler.then_some(simple),
    })
}

/// Name of pod `host` in the cluster's DNS, complete with the cluster's domain.
pub(super) fn fully_qualified(pod: Pod<'_>, host: &str) -> String {
    let (service, namespace) =
        (&pod.config.network.headless_service, &pod.config.cluster.namespace);
    format!("{host}.{service}.{namespace}.svc.{}", pod.cluster_domain())
}

fn bootstrap(pod: Pod<'_>) -> BootstrapTable {
    let network = &pod.config.network;
    let (lead, enable_ipv6) = lead(pod);
    let mut others = network.bootstrap.hosts().hosts().iter().skip(1).cloned();
    let mut hosts = vec![lead];
    let rest = compressed(&mut others);
    if !rest.is_empty() {
        hosts.push(Host { names: rest, bind: None, connect: None });
    }
    BootstrapTable {
        curve_cert: pod.config.layout.curve_certificate(),
        default_port: network.port,
        // Never an interface by name: not every network calls it eth0.
        default_bind: "tcp://*:%p".to_owned(),
        default_connect: format!("tcp://{}:%p", fully_qualified(pod, "%h")),
        enable_ipv6,
        hosts,
    }
}

/// The entry of rank 0, and whether it takes IPv6 to reach it.
fn lead(pod: Pod<'_>) -> (Host, bool) {
    let network = &pod.config.network;
    let names = network.bootstrap.hosts().hosts().first().cloned().unwrap_or_default();
    match &network.bootstrap {
        Bootstrap::Root { .. } => {
            let bind = Some(format!("tcp://*:{}", network.port));
            let connect =
                network.lead_address.map(|address| endpoint(&address.to_string(), network.port));
            let ipv6 = network.lead_address.is_some_and(|address| address.is_ipv6());
            (Host { names, bind, connect }, ipv6)
        }
        Bootstrap::Child { lead, lead_port, .. } => {
            let connect = Some(endpoint(lead, *lead_port));
            let ipv6 = lead.parse().is_ok_and(|address: IpAddr| address.is_ipv6());
            (Host { names, bind: None, connect }, ipv6)
        }
    }
}

/// `ZeroMQ` endpoint of `host`, a name or an address.
fn endpoint(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("tcp://[{address}]:{port}"),
        Err(_) => format!("tcp://{host}:{port}"),
    }
}

/// `hosts` as one hostlist.
fn compressed(hosts: &mut dyn Iterator<Item = String>) -> String {
    let hosts: Vec<String> = hosts.collect();
    // Host names hold no brackets and no commas, so their plain list is a hostlist already.
    let plain = hosts.join(",");
    flux_contract::Hostlist::try_from(plain.clone()).map_or(plain, |list| list.to_string())
}
