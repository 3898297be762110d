//! `tcp://` endpoints, under the rules of ZeroMQ.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;

/// Binds to `uri`. The host part is `*` or an address, never a DNS name; real Flux takes interfaces as well.
pub(crate) fn bind(uri: &str, ipv6: bool) -> std::io::Result<TcpListener> {
    let (host, port) = host_and_port(uri).ok_or(ErrorKind::InvalidInput)?;
    let address = match host {
        "*" if ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        _ => host.parse::<IpAddr>().map_err(|_| Error::from_raw_os_error(nix::libc::ENODEV))?,
    };
    let listener = TcpListener::bind(SocketAddr::new(address, port));
    // As `ZeroMQ` does where the kernel has no IPv6 (`tcp_open_socket`).
    let without_ipv6 = Some(nix::libc::EAFNOSUPPORT);
    if host == "*" && listener.as_ref().is_err_and(|error| error.raw_os_error() == without_ipv6) {
        return TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    }
    listener
}

/// Host and port of a `tcp://` URI; the port is a number.
pub(crate) fn host_and_port(uri: &str) -> Option<(&str, u16)> {
    let (host, port) = uri.strip_prefix("tcp://")?.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = digits.then(|| port.parse().ok()).flatten()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (port > 0 && !host.is_empty()).then_some((host, port))
}

/// The address `ZeroMQ` would connect to (`ip_resolver_t::resolve_getaddrinfo`): without `enable_ipv6` one
/// of IPv4, with it one of IPv6 where there is any. The static binary has no resolver of the C library.
pub(crate) async fn resolve(host: &str, ipv6: bool) -> Result<IpAddr, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{host}: {error}");
    let mut builder = TokioResolver::builder_tokio().map_err(|error| fault(&error))?;
    let (six, four) = (LookupIpStrategy::Ipv6thenIpv4, LookupIpStrategy::Ipv4Only);
    builder.options_mut().ip_strategy = if ipv6 { six } else { four };
    let resolver = builder.build().map_err(|error| fault(&error))?;
    let answer = resolver.lookup_ip(host).await.map_err(|error| fault(&error))?;
    answer.iter().next().ok_or_else(|| fault(&"Name or service not known"))
}
