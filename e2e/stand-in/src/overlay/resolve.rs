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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_kind_are_used_as_zeromq_does() {
        let [four, six] = ["10.0.0.1", "fd00::1"].map(|text| text.parse().expect("valid"));
        assert_eq!(used(vec![four, six], false), [four]);
        assert_eq!(used(vec![four, six], true), [six]);
        assert_eq!(used(vec![four], true), [four]);
        assert!(used(vec![six], false).is_empty());
    }

    #[test]
    fn the_hosts_file_is_read_by_whole_names() {
        let text = "127.0.0.1 localhost # a\n10.0.0.1\tflux-0.flux flux-0\n::1 localhost\n";
        assert_eq!(in_hosts_file(text, "flux-0"), ["10.0.0.1".parse::<IpAddr>().expect("valid")]);
        assert_eq!(in_hosts_file(text, "localhost").len(), 2);
        assert!(in_hosts_file(text, "flux").is_empty());
    }
}
