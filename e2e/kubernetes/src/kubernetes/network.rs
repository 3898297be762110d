//! A cluster's network as a value: the kind of its addresses, ranges, and the domain of its names.

use clap::ValueEnum;
use std::fmt;

/// The kind of addresses that nodes, pods and Services have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum IpFamily {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl fmt::Display for IpFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.to_possible_value().unwrap_or_default().get_name())
    }
}

pub const MOST_NODES: usize = 3;

/// The addresses of one kind that a cluster has. All are private; none is seen outside its namespaces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// As an `EndpointSlice` names this kind.
    pub(crate) kind: &'static str,
    /// That of each node; the first has the control plane and the DNS.
    pub(crate) nodes: [&'static str; MOST_NODES],
    /// Each node's pods get theirs from here.
    pub(crate) node_pods: [&'static str; MOST_NODES],
    /// Length of the prefix of the nodes' network.
    pub(crate) node_prefix: u8,
    /// Where packets to elsewhere would go; nobody is there.
    pub(crate) gateway: &'static str,
    /// Pods get theirs from here.
    pub(crate) pods: &'static str,
    /// Services get theirs from here.
    pub(crate) services: &'static str,
    /// The first of them, which is the API server's.
    pub(crate) api_service: &'static str,
    /// The cluster's DNS; kubeadm takes the tenth too.
    pub(crate) dns: &'static str,
    /// Every address there is.
    pub(crate) everywhere: &'static str,
}

/// kubeadm's users mostly choose these ranges.
const IPV4: Addresses = Addresses {
    kind: "IPv4",
    nodes: ["10.89.0.2", "10.89.0.3", "10.89.0.4"],
    node_pods: ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"],
    node_prefix: 24,
    gateway: "10.89.0.1",
    pods: "10.244.0.0/16",
    services: "10.96.0.0/12",
    api_service: "10.96.0.1",
    dns: "10.96.0.10",
    everywhere: "0.0.0.0/0",
};

/// Those of a cluster at another place, to which [`Kubernetes::link`](super::Kubernetes::link) lays a line.
const IPV4_ELSEWHERE: Addresses = Addresses {
    nodes: ["10.90.0.2", "10.90.0.3", "10.90.0.4"],
    node_pods: ["10.245.0.0/24", "10.245.1.0/24", "10.245.2.0/24"],
    gateway: "10.90.0.1",
    pods: "10.245.0.0/16",
    ..IPV4
};

/// Unique local addresses (RFC 4193). The API server takes no larger range of Services than /108.
const IPV6: Addresses = Addresses {
    kind: "IPv6",
    nodes: ["fd00:10:89::2", "fd00:10:89::3", "fd00:10:89::4"],
    node_pods: ["fd00:10:244::/64", "fd00:10:244:1::/64", "fd00:10:244:2::/64"],
    node_prefix: 64,
    gateway: "fd00:10:89::1",
    pods: "fd00:10:244::/56",
    services: "fd00:10:96::/112",
    api_service: "fd00:10:96::1",
    dns: "fd00:10:96::a",
    everywhere: "::/0",
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub ip_family: IpFamily,
    pub domain: String,
    /// How many seconds its DNS answers from a cache; 0: it has none, as what kubeadm sets up.
    pub dns_cache: u32,
    /// Services get addresses from here, a part of the usual range; absent for all of it.
    pub service_range: Option<&'static str>,
    /// With IPv4, nodes and pods have other addresses than usual.
    pub elsewhere: bool,
}

impl Default for Network {
    fn default() -> Self {
        let domain = "cluster.local".to_owned();
        let ip_family = IpFamily::default();
        Self { ip_family, domain, dns_cache: 0, service_range: None, elsewhere: false }
    }
}

impl Network {
    pub(crate) fn addresses(&self) -> &'static Addresses {
        match self.ip_family {
            IpFamily::Ipv4 if self.elsewhere => &IPV4_ELSEWHERE,
            IpFamily::Ipv4 => &IPV4,
            IpFamily::Ipv6 => &IPV6,
        }
    }

    /// The full name of the API server's Service.
    pub(crate) fn api_name(&self) -> String {
        format!("kubernetes.default.svc.{}", self.domain)
    }
}

pub(crate) fn in_url(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}
