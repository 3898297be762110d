//! `spec.flux`: the view, the configuration of the brokers, and the hosts.

use super::container::own_volumes;
use super::text::{
    is_absolute_path, is_duration, is_label, is_shell_name, non_empty, non_empty_owned,
};
use super::violations::Violations;
use crate::cluster::{AGENT_CONTAINER, Curve, Flux, View};
use crate::crd::{self, Install, MiniClusterSpec};
use crate::images::{ARM_VIEW_IMAGE, VIEW_IMAGE};
use flux_contract::invocation::READY_PORT;
use flux_contract::{Bootstrap, Broker, OVERLAY_PORT, Rest};
use flux_protocol::{CurveCertificate, Hostlist, Redacted};
use k8s_openapi::api::core::v1::{Container, ResourceRequirements};

/// Longest mount path: the path of the broker's socket below it may have 107 characters (unix(7)).
const MOUNT_PATH_LIMIT: usize = 80;

const QUEUE_POLICIES: [&str; 4] = ["fcfs", "easy", "hybrid", "conservative"];

/// Defaults from the operator's own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// The view image (`--view-image`).
    pub view_image: String,
    /// The view image for `flux.arch: arm` (`--arm-view-image`).
    pub arm_view_image: String,
    /// How agent and view come into the pods (`--install`).
    pub install: Install,
    /// The domain of the cluster's Services (`--cluster-domain`), if it is known.
    pub cluster_domain: Option<String>,
}

impl Defaults {
    /// `arm_view_image` is by default `view_image`; but the published view has a separate image for arm64.
    pub fn new(view_image: String, arm_view_image: Option<String>, install: Install) -> Self {
        let published = view_image == VIEW_IMAGE;
        let other = || if published { ARM_VIEW_IMAGE.to_owned() } else { view_image.clone() };
        let arm_view_image = arm_view_image.unwrap_or_else(other);
        Self { arm_view_image, view_image, install, cluster_domain: None }
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self::new(VIEW_IMAGE.to_owned(), None, Install::default())
    }
}

/// Number of hosts from which on the brokers form a tree, and the tree, which is Flux's own default without a
/// `[bootstrap]` (flux-broker-attributes(7), `tbon.topo`).
const TREE_FROM: usize = 256;
const TREE: &str = "kary:32";

/// Mount path of the operator's own files, which no other mount may hide.
const OPERATOR_DIRECTORY: &str = "/flux_operator";

pub(super) fn flux(
    name: &str,
    spec: &MiniClusterSpec,
    defaults: &Defaults,
    faults: &mut Violations,
) -> Flux {
    let flux = &spec.flux;
    let lead = lead_elsewhere(name, flux);
    check_name_of_view(name, flux, faults);
    for variable in flux.environment.keys() {
        faults.require(is_shell_name(variable), format!("spec.flux.environment[{variable}]"), || {
            format!("{variable:?} is no name a shell can export: use letters, digits and '_', not starting with a digit")
        });
    }
    let hosts = hosts(name, spec, lead, faults);
    Flux {
        view: view(flux, defaults, faults),
        install: flux.container.install.unwrap_or(defaults.install),
        complete_workers: flux.complete_workers,
        broker: broker(spec, hosts.len(), faults),
        curve: curve(flux, faults),
        bootstrap: bootstrap(hosts, lead, faults),
        rest: rest(flux, lead.is_some(), faults),
        rest_tls_secret: tls_secret(flux).map(str::to_owned),
        munge_secret: non_empty_owned(flux.munge_secret.as_ref()),
        environment: flux.environment.clone(),
    }
}

fn lead_broker(flux: &crd::Flux) -> Option<&crd::LeadBroker> {
    let bursting = flux.bursting.as_ref().and_then(|bursting| bursting.lead_broker.as_ref());
    bursting.or(flux.lead_broker.as_ref())
}

/// The lead, if another MiniCluster has it. All clusters of a burst may have the same `leadBroker`.
pub(super) fn lead_elsewhere<'flux>(
    name: &str,
    flux: &'flux crd::Flux,
) -> Option<&'flux crd::LeadBroker> {
    lead_broker(flux).filter(|lead| lead.name.as_deref() != Some(name))
}

/// Checks the name of the shared volume and of the container that fills it.
fn check_name_of_view(name: &str, flux: &crd::Flux, faults: &mut Violations) {
    let given = &flux.container.name;
    let is_free = given != name && given != AGENT_CONTAINER && !own_volumes(name).contains(given);
    faults.require(is_label(given) && is_free, "spec.flux.container.name", || {
        format!("{given:?} is the name of a container or volume of the operator's, or none that Kubernetes takes: use another, of at most 63 lower-case letters, digits and '-'")
    });
    let image = given_image(flux).unwrap_or_default();
    faults.require(image.trim() == image, "spec.flux.container.image", || {
        format!("{image:?} begins or ends with white space: remove it")
    });
}

fn given_image(flux: &crd::Flux) -> Option<&str> {
    non_empty(flux.container.image.as_ref())
}

fn tls_secret(flux: &crd::Flux) -> Option<&str> {
    non_empty(flux.rest.as_ref()?.tls_secret_name.as_ref())
}

fn rest(flux: &crd::Flux, has_other_lead: bool, faults: &mut Violations) -> Option<Rest> {
    let rest = flux.rest.as_ref()?;
    let port = u16::try_from(rest.port).unwrap_or_default();
    faults.require(!has_other_lead, "spec.flux.rest", || {
        "another MiniCluster has the lead, which would serve it: set it there".to_owned()
    });
    faults.require(![OVERLAY_PORT, READY_PORT].contains(&port), "spec.flux.rest.port", || {
        format!("{port} is a port of Flux or of its agent: use another")
    });
    let (rotation, tls) = (non_empty_owned(rest.rotation.as_ref()), tls_secret(flux).is_some());
    Some(Rest { port, rotation, tls, ..Rest::default() })
}

fn broker(spec: &MiniClusterSpec, hosts: usize, faults: &mut Violations) -> Broker {
    let (flux, logging) = (&spec.flux, &spec.logging);
    let log_level = if logging.quiet { 0 } else { flux.log_level };
    Broker {
        quorum: None,
        connect_timeout: connect_timeout(flux, faults),
        topology: topology(flux, faults).or_else(|| default_topology(flux, hosts)),
        log_level: u8::try_from(log_level).unwrap_or_default(),
        local_socket: !flux.disable_socket,
        zeromq_debug: logging.zeromq,
        wrap: non_empty_owned(flux.wrap.as_ref()),
        custom_config: non_empty_owned(flux.broker_config.as_ref()),
        queue_policy: queue_policy(flux, faults),
        simple_scheduler: flux.scheduler.simple,
    }
}

fn topology(flux: &crd::Flux, faults: &mut Violations) -> Option<String> {
    let topology = non_empty(flux.topology.as_ref())?;
    let (scheme, factor) = topology.split_once(':').map_or((topology, None), |(a, b)| (a, Some(b)));
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let fits = match scheme {
        "kary" => factor.is_some_and(is_number),
        "mincrit" => factor.is_none_or(is_number),
        "binomial" | "custom" => factor.is_none(),
        _ => false,
    };
    faults.require(fits, "spec.flux.topology", || {
        format!("{topology:?} is no topology of Flux: use kary:<number>, mincrit, mincrit:<number>, binomial or custom")
    });
    faults.require(!flux.minimal_service || scheme == "custom", "spec.flux.topology", || {
        format!("with minimalService no worker has a name by which the brokers below it in {topology} could reach it: remove minimalService, or use custom")
    });
    Some(topology.to_owned())
}

/// The tree of an instance with many brokers, so that not each connects to the lead. In a burst the lead is the only
/// parent, because no other broker is reachable; a `brokerConfig` may have its own tree.
fn default_topology(flux: &crd::Flux, hosts: usize) -> Option<String> {
    let may_choose = flux.bursting.is_none()
        && flux.lead_broker.is_none()
        && non_empty(flux.broker_config.as_ref()).is_none()
        && !flux.minimal_service;
    (may_choose && hosts >= TREE_FROM).then(|| TREE.to_owned())
}

/// Checks the queue policy: Fluxion uses its default for an unknown one, without an error.
fn queue_policy(flux: &crd::Flux, faults: &mut Violations) -> String {
    let policy = &flux.scheduler.queue_policy;
    faults.require(
        QUEUE_POLICIES.contains(&policy.as_str()),
        "spec.flux.scheduler.queuePolicy",
        || format!("{policy:?} is no queue policy: use one of {}", QUEUE_POLICIES.join(", ")),
    );
    let given = flux.scheduler != crd::Scheduler::default();
    let everything = non_empty_owned(flux.broker_config.as_ref()).is_some();
    faults.require(!(given && everything), "spec.flux.scheduler", || {
        "has no effect beside brokerConfig, which is the whole configuration: write it in there"
            .to_owned()
    });
    policy.clone()
}

fn connect_timeout(flux: &crd::Flux, faults: &mut Violations) -> Option<String> {
    let timeout = &flux.connect_timeout;
    if timeout.is_empty() {
        return None;
    }
    faults.require(is_duration(timeout), "spec.flux.connectTimeout", || {
        format!("{timeout:?} is no duration of Flux: write e.g. 5s or 500ms, or \"\" for none")
    });
    Some(timeout.clone())
}

fn curve(flux: &crd::Flux, faults: &mut Violations) -> Curve {
    if let Some(secret) = non_empty_owned(flux.curve_cert_secret.as_ref()) {
        return Curve::Secret(secret);
    }
    let Some(text) = non_empty(flux.curve_cert.as_ref()) else { return Curve::Generate };
    if let Err(error) = CurveCertificate::parse(text) {
        faults
            .add("spec.flux.curveCert", format!("{error}: give the text that flux-keygen writes"));
    }
    Curve::Given(Redacted::new(text.to_owned()))
}

fn bootstrap(
    hosts: Hostlist,
    lead: Option<&crd::LeadBroker>,
    faults: &mut Violations,
) -> Bootstrap {
    let Some(lead) = lead else { return Bootstrap::Root { hosts } };
    let path = "spec.flux.bursting.leadBroker";
    let address = non_empty(lead.address.as_ref()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    faults.require(!address.is_empty() && address.chars().all(fits), format!("{path}.address"), || {
        format!("{address:?} is no host name or address: give the one by which pods here reach the lead, or remove leadBroker if this cluster has the lead")
    });
    let lead_port = u16::try_from(lead.port).unwrap_or(OVERLAY_PORT);
    Bootstrap::Child { lead: address.to_owned(), lead_port, hosts }
}

fn hosts(
    name: &str,
    spec: &MiniClusterSpec,
    lead: Option<&crd::LeadBroker>,
    faults: &mut Violations,
) -> Hostlist {
    let bursting = spec.flux.bursting.as_ref();
    let own =
        |count: u32| Hostlist::of_range(name, 0..count.min(crd::POD_COUNT_LIMIT.unsigned_abs()));
    let clusters = bursting.map_or(&[][..], |bursting| &bursting.clusters);
    let given = given_hostlist(bursting, lead_broker(&spec.flux), faults);
    let (mut hosts, is_given) = match (given, lead) {
        (Some(hosts), _) => (hosts, true),
        (None, Some(lead)) => (lead_hosts(lead, spec.size, faults), true),
        (None, None) => (own(max_size(spec)), false),
    };
    for (position, cluster) in clusters.iter().enumerate() {
        append(&mut hosts, position, cluster, spec.size, faults);
    }
    if is_given || !clusters.is_empty() {
        check_hosts(&hosts, name, max_size(spec), lead.is_some(), faults);
    }
    hosts
}

fn given_hostlist(
    bursting: Option<&crd::Bursting>,
    lead: Option<&crd::LeadBroker>,
    faults: &mut Violations,
) -> Option<Hostlist> {
    let path = "spec.flux.bursting.hostlist";
    let bursting = bursting.and_then(|bursting| non_empty(bursting.hostlist.as_ref()));
    let lead = lead.and_then(|lead| non_empty(lead.hostlist.as_ref()));
    let hosts = Hostlist::parse(bursting.or(lead)?);
    if let Err(error) = &hosts {
        faults.add(path, format!("{error}: write e.g. flux-sample-[0-3],other-[001-003]"));
    }
    hosts.ok()
}

/// The hosts of the MiniCluster with the lead, with its own host name, not its address: Flux compares host names.
fn lead_hosts(lead: &crd::LeadBroker, default_size: i32, faults: &mut Violations) -> Hostlist {
    let path = "spec.flux.bursting.leadBroker";
    let name = non_empty(lead.name.as_ref()).unwrap_or_default();
    faults.require(is_label(name), format!("{path}.name"), || {
        format!("{name:?} is no name of a MiniCluster: give that of the one with the lead, or a hostlist")
    });
    let size = lead.size.unwrap_or(default_size).clamp(1, crd::POD_COUNT_LIMIT);
    Hostlist::of_range(name, 0..size.unsigned_abs())
}

fn append(
    hosts: &mut Hostlist,
    position: usize,
    cluster: &crd::BurstCluster,
    default_size: i32,
    faults: &mut Violations,
) {
    let path = format!("spec.flux.bursting.clusters[{position}]");
    let name =
        non_empty_owned(cluster.name.as_ref()).unwrap_or_else(|| format!("burst-{position}"));
    faults.require(is_label(&name), format!("{path}.name"), || {
        format!("{name:?} is no DNS label: use lower-case letters, digits and '-'")
    });
    let size = cluster.size.unwrap_or(default_size).min(crd::POD_COUNT_LIMIT).unsigned_abs();
    let fits = hosts.append(&Hostlist::of_range(&name, 0..size)).is_ok();
    faults.require(fits, format!("{path}.size"), || {
        format!("{size} are too many: give at most {} hosts in all", Hostlist::LIMIT)
    });
}

pub(super) fn max_size(spec: &MiniClusterSpec) -> u32 {
    let of_autoscale = spec.autoscale.as_ref().map(|autoscale| autoscale.max_size);
    spec.max_size.or(of_autoscale).unwrap_or(spec.size).unsigned_abs()
}

/// Checks that the list has the hosts of this MiniCluster: a broker cannot start if its host name is not in the list.
fn check_hosts(hosts: &Hostlist, name: &str, size: u32, has_lead: bool, faults: &mut Violations) {
    let path = "spec.flux.bursting";
    if let Some(twice) = hosts.listed_twice() {
        faults.add(path, format!("host {twice:?} is listed twice: a host has one rank"));
    }
    let listed = hosts.indexes_of(name);
    faults.require(listed >= size, path, || {
        format!("host \"{name}-{listed}\" of this MiniCluster is not listed: name the MiniCluster as its entry in the list, or as leadBroker.name if it has the lead, or list all its hosts")
    });
    let lead = format!("{name}-0");
    let is_first = hosts.first().as_ref() == Some(&lead);
    faults.require(has_lead || is_first, path, || {
        format!(
            "the first host must be {lead:?}, this MiniCluster's lead, or leadBroker must be given"
        )
    });
    faults.require(!has_lead || !is_first, path, || {
        format!("the first host, {lead:?}, has the lead: give leadBroker.name: {name} if it is this MiniCluster's, else list the other's hosts first")
    });
}

fn view(flux: &crd::Flux, defaults: &Defaults, faults: &mut Violations) -> View {
    let container = &flux.container;
    View {
        enabled: !container.disable,
        container: Container {
            name: container.name.clone(),
            image: given_image(flux)
                .map(str::to_owned)
                .or_else(|| Some(default_image(flux, defaults))),
            image_pull_policy: Some(
                if container.pull_always { "Always" } else { "IfNotPresent" }.to_owned(),
            ),
            working_dir: non_empty_owned(container.working_dir.as_ref()),
            resources: container
                .resources
                .clone()
                .filter(|it| *it != ResourceRequirements::default()),
            security_context: container.security_context.clone(),
            ..Container::default()
        },
        mount_path: mount_path(&container.mount_path, faults),
        medium: container.medium,
        python_path: non_empty_owned(container.python_path.as_ref()),
    }
}

fn default_image(flux: &crd::Flux, defaults: &Defaults) -> String {
    let is_arm = architecture(flux) == Some(ARM);
    if is_arm { &defaults.arm_view_image } else { &defaults.view_image }.clone()
}

/// 64-bit ARM as Go and Kubernetes name it.
const ARM: &str = "arm64";

/// The requested architecture as Go and Kubernetes name it, if there is one.
pub(super) fn architecture(flux: &crd::Flux) -> Option<&'static str> {
    match flux.arch.as_deref()? {
        "amd64" | "x86_64" => Some("amd64"),
        "arm" | "arm64" | "aarch64" => Some(ARM),
        _ => None,
    }
}

fn mount_path(text: &str, faults: &mut Violations) -> String {
    let path = "spec.flux.container.mountPath";
    let trimmed = text.trim_end_matches('/');
    faults.require(
        !trimmed.is_empty() && is_absolute_path(trimmed) && !trimmed.contains(':'),
        path,
        || format!("{text:?} is no mount path: give an absolute path without '..' and ':', other than '/'"),
    );
    faults.require(trimmed.len() <= MOUNT_PATH_LIMIT, path, || {
        format!("{} characters are too many: use at most {MOUNT_PATH_LIMIT}, because the broker's socket lies below", trimmed.len())
    });
    let reserved = [OPERATOR_DIRECTORY, flux_contract::Layout::SOFTWARE_MOUNT];
    let collides =
        |reserved: &&str| trimmed == *reserved || trimmed.starts_with(&format!("{reserved}/"));
    faults.require(!reserved.iter().any(collides), path, || {
        format!("{trimmed:?} belongs to the operator: use another")
    });
    trimmed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_view_has_an_arm_image_of_its_own() {
        let arm = |view: &str, arm: Option<&str>| {
            let arm = arm.map(str::to_owned);
            Defaults::new(view.to_owned(), arm, Install::Auto).arm_view_image
        };
        assert_eq!(arm(VIEW_IMAGE, None), ARM_VIEW_IMAGE);
        assert_eq!(arm("mirror/view:1", None), "mirror/view:1");
        assert_eq!(arm("mirror/view:1", Some("mirror/arm:1")), "mirror/arm:1");
    }
}
