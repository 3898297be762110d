//! State reports to a service manager, for `broker.sd-notify`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends one report to the socket named by `NOTIFY_SOCKET`. Nobody listening is no error.
pub(crate) fn send(socket: &str, text: &str) {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    };
    let Ok(address) = address else { return };
    if let Ok(datagram) = UnixDatagram::unbound() {
        drop(datagram.send_to_addr(text.as_bytes(), &address));
    }
}
