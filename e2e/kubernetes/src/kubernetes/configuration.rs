//! The configuration files and command lines of the node's programs: the files beside this one, filled with values.

use super::layout::NodeLayout;
use super::network::{Network, in_url};
use super::options::{Nodes, Options};
use super::recipes::Built;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The image that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "localhost/flux-e2e/pause:1";

/// Where certificates and keys are inside the node.
const PKI: &str = "/run/node/pki";

/// The configuration files of each node, and those of the control plane, which depend on the network alone.
const OF_NODE: [(&str, &str); 4] = [
    ("containerd.toml", include_str!("files/containerd.toml")),
    ("kubelet.yaml", include_str!("files/kubelet.yaml")),
    ("cni/10-pods.conflist", include_str!("files/10-pods.conflist")),
    // Pods that use the node's DNS get the cluster's: the node has no other.
    ("resolv.conf", "nameserver @control-plane@\n"),
];
const OF_CONTROL_PLANE: [(&str, &str); 3] = [
    ("audit-policy.yaml", include_str!("files/audit-policy.yaml")),
    ("Corefile", include_str!("files/Corefile")),
    ("kwok.yaml", include_str!("files/kwok.yaml")),
];

pub(crate) const OBJECTS: &str = include_str!("files/objects.yaml");

/// One entry of `components.yaml`, which describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    built: String,
    arguments: Vec<String>,
    #[serde(default)]
    several: Vec<String>,
    #[serde(default)]
    simulated: Vec<String>,
    #[serde(default)]
    native_gangs: Vec<String>,
}

/// The values for the names between @ signs in the files of one node.
pub(crate) struct Values {
    named: Vec<(&'static str, String)>,
    several: bool,
    simulated: bool,
    native_gangs: bool,
    /// Measurements are made with the default settings of Kubernetes and Go.
    pub(crate) is_measured: bool,
}

impl Values {
    pub(crate) fn new(node: &NodeLayout, built: &Built, options: &Options) -> Result<Self> {
        let several = options.nodes.count() > 1;
        let containerd = built.containerd.get(node.position);
        let containerd = containerd.context("the cluster has fewer nodes")?;
        let mut values = of_network(&options.network, node.position);
        let inside = |directory| format!("/run/built/{}", Built::name_of(directory));
        // In a cluster of several nodes a node is lost so long after its last heartbeat, and sends one four times as
        // often. By default it is 40 seconds, which every test of a lost node would wait for.
        let (lease, period) = if several { ("8", "2s") } else { ("40", "10s") };
        let cpu_manager = if options.static_cpus {
            // With this policy the kubelet does not start unless it reserves processor time for the system.
            "cpuManagerPolicy: static\nsystemReserved: {cpu: 100m}"
        } else {
            "cpuManagerPolicy: none"
        };
        let is_measured = matches!(options.nodes, Nodes::RealWithDisk | Nodes::Simulated);
        let sync = if is_measured { "1m" } else { "10s" };
        values.extend([
            ("sync-period", sync.to_owned()),
            ("cpu-manager", cpu_manager.to_owned()),
            ("node", node.name.clone()),
            ("control-group", node.control_group.clone()),
            ("pause-image", PAUSE_IMAGE.to_owned()),
            ("lease", lease.to_owned()),
            ("status-period", period.to_owned()),
            ("kubernetes", inside(&built.kubernetes)),
            ("containerd", inside(containerd)),
            ("coredns", inside(&built.coredns)),
        ]);
        values.extend(built.kwok.as_deref().map(|kwok| ("kwok", inside(kwok))));
        let (simulated, native_gangs) = (options.nodes == Nodes::Simulated, options.native_gangs);
        Ok(Self { named: values, several, simulated, native_gangs, is_measured })
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        self.named
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
    }

    /// Names and contents of the configuration files of the node but the certificates.
    pub(crate) fn files(&self, with_control_plane: bool) -> Vec<(String, String)> {
        let (mut files, mut users) = (OF_NODE.to_vec(), vec!["proxy", "kubelet"]);
        if with_control_plane {
            files.extend(OF_CONTROL_PLANE);
            users.extend(["controller-manager", "scheduler", "coredns", "admin"]);
        }
        let kubeconfig = |user| (format!("{user}.kubeconfig"), self.kubeconfig(user, PKI));
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), self.fill(text)));
        files.chain(users.into_iter().map(kubeconfig)).collect()
    }

    /// A kubeconfig of one of the users that have certificates in the directory `pki`.
    pub(crate) fn kubeconfig(&self, user: &str, pki: &str) -> String {
        let text = self.fill(include_str!("files/kubeconfig.yaml"));
        text.replace("@user@", user).replace("@pki@", pki)
    }

    /// The program of this name, by its path inside the node, and its arguments.
    pub(crate) fn command_line(&self, name: &str) -> Result<Vec<String>> {
        let mut entries: BTreeMap<String, Entry> =
            serde_saphyr::from_str(include_str!("files/components.yaml"))
                .context("understanding components.yaml")?;
        let entry = entries.remove(name).with_context(|| format!("{name} is no component"))?;
        let Entry { built, arguments, several, simulated, native_gangs } = entry;
        let further = [
            (self.several, several),
            (self.simulated, simulated),
            (self.native_gangs, native_gangs),
        ];
        let further = further.into_iter().filter(|(applies, _)| *applies).flat_map(|(_, it)| it);
        let words = [format!("@{built}@/{name}")].into_iter().chain(arguments).chain(further);
        Ok(words.map(|word| self.fill(&word)).collect())
    }
}

/// Every pod has its own link to the node, so that all traffic passes the node's firewall rules even if the kernel does
/// not filter bridges. Packets to pods of other nodes keep their source address, because each node has routes to them.
fn of_network(network: &Network, position: usize) -> Vec<(&'static str, String)> {
    let addresses = network.addresses();
    let cache = match network.dns_cache {
        0 => format!(
            "cache 30 {{\n        disable success {0}\n        disable denial {0}\n    }}",
            network.domain
        ),
        // Shorter for names that do not exist: the tests create them soon.
        seconds => format!("cache {seconds} {{\n        denial 9984 {}\n    }}", seconds.min(30)),
    };
    vec![
        ("control-plane", addresses.nodes[0].to_owned()),
        ("api-address", in_url(addresses.nodes[0])),
        ("api-name", network.api_name()),
        ("address-kind", addresses.kind.to_owned()),
        ("domain", network.domain.clone()),
        ("dns", addresses.dns.to_owned()),
        ("dns-cache", cache),
        // An answer leaves the cache when it is no longer good by its own words.
        ("dns-ttl", network.dns_cache.max(30).to_string()),
        ("services", network.service_range.unwrap_or(addresses.services).to_owned()),
        ("pods", addresses.pods.to_owned()),
        ("node-address", addresses.nodes[position].to_owned()),
        ("node-pods", addresses.node_pods[position].to_owned()),
        ("everywhere", addresses.everywhere.to_owned()),
    ]
}
