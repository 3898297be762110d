//! `broker.toml` (flux-config(5)): typed, so that it is never text pasted together.

use crate::plan::broker_command::flux_duration;
use crate::plan::error::PlanError;
use crate::plan::pod::Pod;
use crate::plan::step::{Role, Way};
use flux_contract::Bootstrap;
use serde::Serialize;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Left to itself Fluxion begins with the highest rank: a batch would leave its output where no hook
/// of the lead finds it, and the pods that go first when a cluster shrinks would be the busy ones.
const LOWEST_NODE_FIRST: &str = "lonode";

/// The broker's configuration. Every pod of an instance gets the same hosts in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BrokerDocument {
    access: Access,
    bootstrap: BootstrapTable,
    exec: Exec,
    resource: Resource,
    #[serde(rename = "sched-fluxion-qmanager")]
    fluxion_queues: FluxionQueues,
    #[serde(rename = "sched-fluxion-resource")]
    fluxion_resources: FluxionResources,
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

/// flux-config-exec(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Exec {
    /// How long a job that is cancelled, as all are in a stop, has from SIGTERM to SIGKILL.
    kill_timeout: String,
}

/// flux-config-resource(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Resource {
    path: PathBuf,
}

/// flux-config-sched-fluxion-qmanager(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct FluxionQueues {
    queue_policy: String,
}

/// flux-config-sched-fluxion-resource(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct FluxionResources {
    match_policy: &'static str,
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
}

/// The broker's configuration, unless the user gave all of it.
pub(super) fn document(pod: Pod<'_>, way: Way) -> Option<BrokerDocument> {
    let config = pod.config;
    if config.broker.custom_config.is_some() {
        return None;
    }
    let simple = Modules {
        alternatives: Alternatives { sched: "sched-simple", feasibility: "sched-simple" },
    };
    Some(BrokerDocument {
        access: Access { allow_guest_user: true, allow_root_owner: true },
        bootstrap: bootstrap(pod, way),
        exec: Exec { kill_timeout: flux_duration(pod.budget().jobs) },
        resource: Resource { path: config.layout.resource_file() },
        fluxion_queues: FluxionQueues { queue_policy: config.broker.queue_policy.clone() },
        fluxion_resources: FluxionResources { match_policy: LOWEST_NODE_FIRST },
        modules: config.broker.simple_scheduler.then_some(simple),
    })
}

/// Name of pod `host` in the cluster's DNS, complete with the cluster's domain.
pub(super) fn fully_qualified(pod: Pod<'_>, host: &str) -> String {
    let (service, namespace) =
        (&pod.config.network.headless_service, &pod.config.cluster.namespace);
    format!("{host}.{service}.{namespace}.svc.{}", pod.cluster_domain())
}

fn bootstrap(pod: Pod<'_>, way: Way) -> BootstrapTable {
    let network = &pod.config.network;
    let (lead, enable_ipv6) = lead(pod, way);
    let others = network.bootstrap.hosts().without_first();
    let mut hosts = vec![lead];
    if !others.is_empty() {
        hosts.push(Host { names: others.to_string(), bind: None, connect: None });
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

/// The entry of rank 0, and whether this broker's sockets take IPv6.
fn lead(pod: Pod<'_>, way: Way) -> (Host, bool) {
    let network = &pod.config.network;
    let names = network.bootstrap.hosts().first().unwrap_or_default();
    let (bind, connect, address) = match &network.bootstrap {
        Bootstrap::Root { .. } => {
            let address = network.lead_address.filter(|_| way == Way::Address);
            let connect = address.map(|address| endpoint(&address.to_string(), network.port));
            (Some(format!("tcp://*:{}", network.port)), connect, address)
        }
        Bootstrap::Child { lead, lead_port, .. } => {
            (None, Some(endpoint(lead, *lead_port)), lead.parse().ok())
        }
    };
    let ipv6 = match (pod.role, way) {
        // It connects to nobody, and `ZeroMQ` then listens for IPv4 as well; without IPv6 in the
        // kernel, for IPv4 alone.
        (Role::Lead, _) => true,
        (Role::Worker, Way::Address) => address.is_some_and(|address| address.is_ipv6()),
        (Role::Worker, Way::Name { ipv6 }) => ipv6,
    };
    (Host { names, bind, connect }, ipv6)
}

/// `ZeroMQ` endpoint of `host`, a name or an address.
fn endpoint(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("tcp://[{address}]:{port}"),
        Err(_) => format!("tcp://{host}:{port}"),
    }
}
