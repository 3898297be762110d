//! Addresses to listen at.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// All addresses of either kind at `port`, and, for a kernel without IPv6, those of IPv4.
pub(crate) fn all_addresses(port: u16) -> [SocketAddr; 2] {
    [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
}
