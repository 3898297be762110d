//! A MiniCluster with IPv6 addresses only and another cluster domain than usual, on a cluster of its own. Needs root.

use crate::prelude::*;
use e2e::examples::run::run;
use e2e::kubernetes::IpFamily;
use std::net::IpAddr;

/// The kernel lists its IPv6 addresses here, if it has any.
const KERNEL_HAS_IPV6: &str = "/proc/net/if_inet6";

/// hello-world finds its lead by the address of a Service, bursting by a name that has no IPv4 address.
#[test]
#[ignore = "needs root"]
fn miniclusters_run_over_ipv6_under_any_cluster_domain() {
    if !Path::new(KERNEL_HAS_IPV6).exists() {
        let reason = format!("the kernel has no IPv6, there is no {KERNEL_HAS_IPV6}");
        notes::not_run("MiniClusters over IPv6", &reason);
        return;
    }
    let network = Network {
        ip_family: IpFamily::Ipv6,
        domain: "k8s.example".parse().unwrap(),
        ..Network::default()
    };
    on_a_cluster(&options("network", network), |environment| {
        let pods =
            ["get", "pods", "--all-namespaces", "-ojsonpath={.items[*].status.podIPs[*].ip}"];
        let addresses = environment.kubectl(&pods)?;
        let is_ipv6 = |address: &str| address.parse::<IpAddr>().unwrap().is_ipv6();
        assert!(!addresses.is_empty() && addresses.split(' ').all(is_ipv6), "{addresses}");
        ["hello-world", "bursting"].iter().try_for_each(|name| run(name, None, environment))
    });
}
