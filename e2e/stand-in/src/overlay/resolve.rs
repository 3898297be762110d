//! Host names to addresses, without the C library's resolver: the binary is static.

use std::net::IpAddr;

use hickory_resolver::TokioResolver;

/// Addresses of `host`: itself, or from `/etc/hosts`, or from DNS with the search list.
pub(crate) async fn addresses(host: &str, ipv6: bool) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![address]);
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut found = in_hosts_file(&hosts, host);
    if found.is_empty() {
        let fault = |error: &dyn std::fmt::Display| error.to_string();
        let builder = TokioResolver::builder_tokio().map_err(|error| fault(&error))?;
        let resolver = builder.build().map_err(|error| fault(&error))?;
        let answer = resolver.lookup_ip(host).await.map_err(|error| fault(&error))?;
        found = answer.iter().collect();
    }
    found.retain(|address| address.is_ipv4() || ipv6);
    if found.is_empty() { Err("Name or service not known".to_owned()) } else { Ok(found) }
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
    fn the_hosts_file_is_read_by_whole_names() {
        let text = "127.0.0.1 localhost # a\n10.0.0.1\tflux-0.flux flux-0\n::1 localhost\n";
        assert_eq!(in_hosts_file(text, "flux-0"), ["10.0.0.1".parse::<IpAddr>().expect("valid")]);
        assert_eq!(in_hosts_file(text, "localhost").len(), 2);
        assert!(in_hosts_file(text, "flux").is_empty());
    }
}
