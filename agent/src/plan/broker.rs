//! The command that starts the broker (flux-start(1), flux-broker(1)), and its configuration (flux-config(5)).

use crate::plan::files::file;
use crate::plan::grace_period::GracePeriod;
use crate::plan::pod::Pod;
use crate::plan::release;
use crate::plan::step::{FileToWrite, Role};
use flux_contract::{Bootstrap, Workload};
use std::iter;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use toml::{Table, Value};

/// By default Fluxion begins with the highest rank: a batch would leave its output where no hook of the lead finds it, and
/// the pods that are removed first when a cluster shrinks would be the busy ones.
const LOWEST_NODE_FIRST: &str = "lonode";

/// `duration` in Flux Standard Duration (RFC 23).
fn flux_duration(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// Program and options. No broker has an initial program: PID 1 starts the lead's command. `tbon.fanout` is not among
/// the options: any value would switch the topology of the configuration off.
pub(super) fn command(pod: Pod<'_>) -> Vec<String> {
    let (config, layout) = (pod.config, &pod.config.layout);
    let broker = &config.broker;
    let mut words = vec![pod.flux(), "start".to_owned()];
    if let Some(wrap) = &broker.wrap {
        words.push(format!("--wrap={wrap}"));
    }
    words.push(format!("-o--config-path={}", layout.broker_config_dir()));
    let grace = GracePeriod::of_runner(config);
    let options = [
        ("cron.directory", Some(layout.cron_dir())),
        ("rundir", Some(layout.run_dir())),
        ("statedir", Some(layout.state_dir())),
        ("local-uri", broker.local_socket.then(|| layout.local_uri())),
        ("tbon.connect_timeout", broker.connect_timeout.clone()),
        ("tbon.topo", broker.topology.clone()),
        ("tbon.zmqdebug", broker.zeromq_debug.then(|| "1".to_owned())),
        ("broker.cleanup-timeout", Some(flux_duration(grace.cleanup))),
        ("broker.shutdown-timeout", Some(flux_duration(grace.leave))),
        ("log-stderr-level", Some(broker.log_level.to_string())),
        // Each pod's log shows its own broker.
        ("log-stderr-mode", Some("local".to_owned())),
    ];
    let option =
        |(name, value): (&str, Option<String>)| Some(attribute(&format!("{name}={}", value?)));
    words.extend(options.into_iter().filter_map(option));
    if pod.role == Role::Lead || matches!(config.workload, Workload::Interactive { .. }) {
        words.push(attribute("broker.rc2_none"));
    }
    let quorum = broker.quorum.filter(|_| pod.role == Role::Lead);
    words.extend(quorum.map(|brokers| {
        attribute(&format!("broker.quorum={}", release::quorum(pod.facts, brokers)))
    }));
    words
}

/// The option of `flux start` that sets a broker attribute in every release: its own `-S` came with flux-core 0.69.
pub(crate) fn attribute(setting: &str) -> String {
    format!("-o-S{setting}")
}

/// `broker.toml`: the user's own text where there is one, else with the address at which the lead was `found`; before that,
/// with its Service's address if it has one.
pub(super) fn configuration(pod: Pod<'_>, found: Option<IpAddr>) -> FileToWrite {
    let custom = pod.config.broker.custom_config.clone();
    let content = custom.unwrap_or_else(|| document(pod, found).to_string());
    file(pod.config.layout.broker_toml(), 0o644, content)
}

fn document(pod: Pod<'_>, found: Option<IpAddr>) -> Table {
    let config = pod.config;
    // Flux would compare the file with hwloc's findings, which differ (flux-config-resource(5)).
    let mut resource = table([("path", config.layout.resource_file())]);
    resource.extend(table([("noverify", true)]));
    let mut document = table([
        // People who enter the pod as another user may read; those who enter as root may also shut down.
        ("access", table([("allow-guest-user", true), ("allow-root-owner", true)])),
        ("bootstrap", bootstrap(pod, found)),
        // How long a job that is cancelled, as all are in a stop, has from SIGTERM to SIGKILL.
        ("exec", table([("kill-timeout", flux_duration(GracePeriod::of_runner(config).jobs))])),
        ("resource", resource),
        ("sched-fluxion-qmanager", table([("queue-policy", config.broker.queue_policy.clone())])),
        ("sched-fluxion-resource", table([("match-policy", LOWEST_NODE_FIRST)])),
    ]);
    if config.broker.simple_scheduler {
        // flux-modprobe(1): which module provides a service that several could.
        let simple = ["sched", "feasibility"].map(|service| (service, "sched-simple"));
        document.extend(table([("modules", table([("alternatives", table(simple))]))]));
    }
    if config.rest.is_some() {
        // Jobs come one by one over HTTP. Each would wait 10 ms for others to be ingested with it
        // (flux-config-ingest(5)).
        document.extend(table([("ingest", table([("batch-count", 1)]))]));
    }
    document
}

/// flux-config-bootstrap(5). Every pod of an instance gets the same hosts in the same order.
fn bootstrap(pod: Pod<'_>, found: Option<IpAddr>) -> Table {
    let network = &pod.config.network;
    let (lead, enable_ipv6) = lead(pod, found);
    let others = network.bootstrap.hosts().without_first();
    let others = (!others.is_empty()).then(|| table([("host", others.to_string())]));
    let hosts: Vec<Table> = iter::once(lead).chain(others).collect();
    let mut bootstrap = table::<Value, 5>([
        ("curve_cert", pod.config.layout.curve_certificate().into()),
        ("default_port", i64::from(network.port).into()),
        // Never an interface by name: not every network calls it eth0.
        ("default_bind", "tcp://*:%p".into()),
        ("default_connect", format!("tcp://{}:%p", fully_qualified(pod, "%h")).into()),
        ("hosts", hosts.into()),
    ]);
    if enable_ipv6 {
        bootstrap.extend(table([("enable_ipv6", true)]));
    }
    bootstrap
}

/// The entry of rank 0, and whether this broker's sockets take IPv6.
///
/// A broker connects to the lead's own address, unless the lead was found at another one. For a name, `ZeroMQ` asks for IPv6
/// addresses alone where it may use them, else for IPv4 addresses alone.
fn lead(pod: Pod<'_>, found: Option<IpAddr>) -> (Table, bool) {
    let network = &pod.config.network;
    let address = lead_address(pod);
    let mut host = table([("host", network.bootstrap.hosts().first().unwrap_or_default())]);
    let connect = match &network.bootstrap {
        Bootstrap::Root { .. } => {
            host.extend(table([("bind", format!("tcp://*:{}", network.port))]));
            let address = address.filter(|address| found.is_none_or(|found| found == *address));
            address.map(|address| endpoint(&address.to_string(), network.port))
        }
        Bootstrap::Child { lead, lead_port, .. } => Some(endpoint(lead, *lead_port)),
    };
    host.extend(connect.map(|connect| ("connect".to_owned(), connect.into())));
    // The lead makes no connections, and `ZeroMQ` then listens for IPv4 as well; without IPv6 in the kernel, for IPv4 alone.
    let ipv6 = pod.role == Role::Lead || found.or(address).is_some_and(|it| it.is_ipv6());
    (host, ipv6)
}

/// The lead's address where it has one that does not change.
pub(super) fn lead_address(pod: Pod<'_>) -> Option<IpAddr> {
    match &pod.config.network.bootstrap {
        Bootstrap::Root { .. } => pod.config.network.lead_address,
        Bootstrap::Child { lead, .. } => lead.parse().ok(),
    }
}

/// Name of pod `host` in the cluster's DNS, complete with the cluster's domain.
pub(super) fn fully_qualified(pod: Pod<'_>, host: &str) -> String {
    let (service, namespace) =
        (&pod.config.network.headless_service, &pod.config.cluster.namespace);
    let domain = pod.facts.cluster_domain.as_deref().unwrap_or("cluster.local");
    format!("{host}.{service}.{namespace}.svc.{domain}")
}

/// `ZeroMQ` endpoint of `host`, a name or an address.
fn endpoint(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("tcp://[{address}]:{port}"),
        Err(_) => format!("tcp://{host}:{port}"),
    }
}

fn table<V: Into<Value>, const N: usize>(entries: [(&str, V); N]) -> Table {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}
