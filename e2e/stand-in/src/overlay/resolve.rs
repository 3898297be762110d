//! Host names to addresses, without the C library's resolver: the binary is static.

use std::net::IpAddr;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;

/// Addresses of `host` that `ZeroMQ` would use: itself, or from `/etc/hosts`, or from DNS with the
/// search list.
pub(crate) async fn addresses(host: &str, ipv6: bool) -> Result<Vec<IpAddr>, String> {
    let mut found = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => in_hosts_file(&std::fs::read_to_string("/etc/hosts").unwrap_or_default(), host),
    };
    if found.is_empty() {
        let fault = |error: &dyn std::fmt::Display| error.to_string();
        let mut builder = TokioResolver::builder_tokio().map_err(|error| fault(&error))?;
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        let resolver = builder.build().map_err(|error| fault(&error))?;
        let answer = resolver.lookup_ip(host).await.map_err(|error| fault(&error))?;
        found = answer.iter().collect();
    }
    let used = used(found, ipv6);
    if used.is_empty() { Err("Name or service not known".to_owned()) } else { Ok(used) }
}

/// Without `enable_ipv6` the IPv4 addresses alone, with it the IPv6 ones where there are any: what
/// `getaddrinfo` gives `ZeroMQ` (`ip_resolver_t::resolve_getaddrinfo`).
fn used(found: Vec<IpAddr>, ipv6: bool) -> Vec<IpAddr> {
    let (over_ipv6, over_ipv4): (Vec<_>, Vec<_>) = found.into_iter().partition(IpAddr::is_ipv6);
    if ipv6 && !over_ipv6.is_empty() { over_ipv6 } else { over_ipv4 }
}

fn in_hosts_file(text: &str, host: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| line.split('#').next())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
        })
        .collect()
}
