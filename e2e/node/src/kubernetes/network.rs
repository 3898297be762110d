//! A cluster's network as a value: kinds of addresses, ranges, and the domain of its names.

use anyhow::{Error, Result, bail, ensure};
use std::fmt;
use std::str::FromStr;

/// The kinds of addresses that nodes, pods and Services have, the usual one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpFamilies(Vec<&'static Addresses>);

impl Default for IpFamilies {
    fn default() -> Self {
        Self(vec![&IPV4])
    }
}

impl FromStr for IpFamilies {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self(match text {
            "ipv4" => vec![&IPV4],
            "ipv6" => vec![&IPV6],
            "ipv4,ipv6" => vec![&IPV4, &IPV6],
            "ipv6,ipv4" => vec![&IPV6, &IPV4],
            _ => bail!("{text:?} is no kind of address: use ipv4, ipv6, or both with a comma"),
        }))
    }
}

impl fmt::Display for IpFamilies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter().map(|family| family.kind.to_lowercase());
        formatter.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

/// Reads the domain under which a cluster's names are.
pub fn cluster_domain(text: &str) -> Result<String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = |label: &str| {
        let is_long = (1..=63).contains(&label.len());
        is_long && label.bytes().all(inner) && label.trim_matches('-').len() == label.len()
    };
    // The longest name below it that the harness makes itself is that of the API server.
    ensure!(
        text.len() <= 200 && text.split('.').all(fits),
        "cluster domain {text:?} must be labels of a-z, 0-9 and - with dots between them"
    );
    Ok(text.to_owned())
}

/// Most nodes that a cluster can have.
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
static IPV4: Addresses = Addresses {
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

/// Unique local addresses (RFC 4193). The API server takes no larger range of Services than /108.
static IPV6: Addresses = Addresses {
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

/// A cluster's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The kinds of addresses it has.
    pub ip_families: IpFamilies,
    /// The domain of its names.
    pub domain: String,
    /// How many seconds its DNS answers from a cache; 0: it has none, as what kubeadm sets up.
    pub dns_cache: u32,
}

impl Default for Network {
    fn default() -> Self {
        let domain = "cluster.local".to_owned();
        Self { ip_families: IpFamilies::default(), domain, dns_cache: 0 }
    }
}

impl Network {
    /// The addresses of each kind that it has, the usual one first.
    pub(crate) fn all(&self) -> &[&'static Addresses] {
        &self.ip_families.0
    }

    pub(crate) fn usual(&self) -> &'static Addresses {
        self.ip_families.0[0]
    }

    /// One value for each kind of address, as Kubernetes' options take them.
    pub(crate) fn each(&self, value: impl Fn(&'static Addresses) -> &'static str) -> String {
        self.all().iter().copied().map(value).collect::<Vec<_>>().join(",")
    }

    /// The full name of the API server's Service.
    pub(crate) fn api_name(&self) -> String {
        format!("kubernetes.default.svc.{}", self.domain)
    }
}

pub(crate) fn in_url(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_addresses_are_read_as_they_are_written() {
        for text in ["ipv4", "ipv6", "ipv4,ipv6", "ipv6,ipv4"] {
            assert_eq!(text.parse::<IpFamilies>().unwrap().to_string(), text);
        }
        for bad in ["", "ipv5", "ipv4,", "ipv6,ipv6", "ipv4,ipv6,ipv4"] {
            assert!(bad.parse::<IpFamilies>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_domain_is_a_dns_name() {
        assert_eq!(cluster_domain("k8s.example").unwrap(), "k8s.example");
        for bad in ["", ".", "a..b", "-a", "A", "a b", "a."] {
            assert!(cluster_domain(bad).is_err(), "{bad:?}");
        }
    }
}
