//! `tcp://` and `ipc://` endpoints, under the rules of ZeroMQ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use crate::failure::strerror;

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Bound {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a path.
    Ipc(UnixListener),
}

/// Binds to `uri`. The host part is `*`, an address or an interface name, never a DNS name.
///
/// The error is the operating system's text, as in Flux's `error binding to URI: TEXT`.
pub(crate) fn bind(uri: &str, ipv6: bool) -> Result<Bound, String> {
    if let Some(path) = uri.strip_prefix("ipc://") {
        return bind_path(path).map(Bound::Ipc).map_err(|error| strerror(&error));
    }
    let (host, port) = host_and_port(uri).ok_or("Invalid argument")?;
    let address = bind_address(host, ipv6).ok_or("No such device")?;
    let mut listener = TcpListener::bind(SocketAddr::new(address, port));
    // As `ZeroMQ` does where the kernel has no IPv6 (`tcp_open_socket`).
    let without_ipv6 = Some(nix::errno::Errno::EAFNOSUPPORT as i32);
    if host == "*" && listener.as_ref().is_err_and(|error| error.raw_os_error() == without_ipv6) {
        listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    }
    listener.map(Bound::Tcp).map_err(|error| strerror(&error))
}

fn bind_path(path: &str) -> std::io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            // ZeroMQ takes over a socket file of that name.
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        result => result,
    }
}

/// Host and port of a `tcp://` URI; the port is a number.
pub(crate) fn host_and_port(uri: &str) -> Option<(&str, u16)> {
    let (host, port) = uri.strip_prefix("tcp://")?.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = digits.then(|| port.parse().ok()).flatten()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (port > 0 && !host.is_empty()).then_some((host, port))
}

fn bind_address(host: &str, ipv6: bool) -> Option<IpAddr> {
    if host == "*" {
        return Some(if ipv6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        });
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return (address.is_ipv4() || ipv6).then_some(address);
    }
    interface_address(host, ipv6)
}

fn interface_address(name: &str, ipv6: bool) -> Option<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().ok()?;
    interfaces.filter(|interface| interface.interface_name == name).find_map(|interface| {
        let address = interface.address?;
        if ipv6 {
            address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()))
        } else {
            address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()))
        }
    })
}

/// Whether ZeroMQ would take this as something to connect to.
pub(crate) fn can_connect(uri: &str) -> bool {
    if let Some(path) = uri.strip_prefix("ipc://") {
        return !path.is_empty();
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || "-.:_%".contains(c);
    host_and_port(uri).is_some_and(|(host, _)| host.chars().all(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        listener.local_addr().expect("bound").port()
    }

    #[test]
    fn interfaces_and_addresses_bind_and_names_do_not() {
        for host in ["lo", "127.0.0.1", "*"] {
            let uri = format!("tcp://{host}:{}", free_port());
            assert!(matches!(bind(&uri, false), Ok(Bound::Tcp(_))), "{uri}");
        }
        for host in ["localhost", "nosuch0"] {
            let uri = format!("tcp://{host}:{}", free_port());
            assert_eq!(bind(&uri, false).expect_err("refused"), "No such device", "{uri}");
        }
        assert_eq!(bind("tcp://*:x", false).expect_err("refused"), "Invalid argument");
    }

    #[test]
    fn a_taken_port_says_so() {
        let holder = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = holder.local_addr().expect("bound").port();
        let error = bind(&format!("tcp://127.0.0.1:{port}"), false).expect_err("refused");
        assert_eq!(error, "Address already in use");
    }

    #[test]
    fn wildcards_cannot_be_connected_to() {
        assert!(can_connect("tcp://flux-0.flux.ns.svc:8050"));
        assert!(!can_connect("tcp://*:8050"));
        assert!(!can_connect("tcp://host"));
    }
}
