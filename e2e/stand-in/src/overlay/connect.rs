//! The worker's side: connect, and connect again, for ever.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use omq_proto::CurveKeypair;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::link::{self, LinkEvent, Stream};
use super::{endpoint, resolve};

/// Pause between attempts, as in libzmq.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Where and how to connect.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    /// The parent's `connect` URI.
    pub(crate) uri: String,
    /// Certificate shared by all brokers.
    pub(crate) keys: CurveKeypair,
    /// This broker's uuid: its routing identity.
    pub(crate) uuid: String,
    /// Whether IPv6 addresses are used.
    pub(crate) ipv6: bool,
    /// Limit of one TCP connection attempt; `None` leaves it to the system.
    pub(crate) connect_timeout: Option<Duration>,
    /// How long sent data may stay unacknowledged; `None` leaves it to the system.
    pub(crate) user_timeout: Option<Duration>,
}

/// Keeps the link up. Ends when `outgoing` is closed. A name that does not resolve is reported
/// once, and tried again.
pub(crate) async fn keep_connected(
    uplink: Uplink,
    mut outgoing: UnboundedReceiver<Bytes>,
    events: UnboundedSender<LinkEvent>,
) {
    let mut reported = false;
    loop {
        match attempt(&uplink).await {
            Ok(Some(stream)) => {
                let connection = link::client(&uplink.keys, &uplink.uuid);
                link::run(stream, connection, &mut outgoing, &events).await;
            }
            Err((host, reason)) if !reported => {
                reported = true;
                drop(events.send(LinkEvent::Unresolved { host, reason }));
            }
            Ok(None) | Err(_) => {}
        }
        if outgoing.is_closed() {
            return;
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// One attempt; the error is a name without an address, and why.
async fn attempt(uplink: &Uplink) -> Result<Option<Box<dyn Stream>>, (String, String)> {
    if let Some(path) = uplink.uri.strip_prefix("ipc://") {
        let stream = UnixStream::connect(path).await.ok();
        return Ok(stream.map(|stream| Box::new(stream) as Box<dyn Stream>));
    }
    let Some((host, port)) = endpoint::host_and_port(&uplink.uri) else { return Ok(None) };
    let addresses = resolve::addresses(host, uplink.ipv6).await;
    let addresses = addresses.map_err(|reason| (host.to_owned(), reason))?;
    let Some(address) = addresses.first() else { return Ok(None) };
    let connecting = TcpStream::connect(SocketAddr::new(*address, port));
    let stream = match uplink.connect_timeout {
        Some(limit) => tokio::time::timeout(limit, connecting).await.ok().and_then(Result::ok),
        None => connecting.await.ok(),
    };
    Ok(stream.map(|stream| {
        tune(&stream, uplink.user_timeout);
        Box::new(stream) as Box<dyn Stream>
    }))
}

/// Socket options of a TCP link; a system without them works all the same.
pub(crate) fn tune(stream: &TcpStream, user_timeout: Option<Duration>) {
    drop(stream.set_nodelay(true));
    if let Some(limit) = user_timeout {
        let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let option = nix::sys::socket::sockopt::TcpUserTimeout;
        let _ = nix::sys::socket::setsockopt(stream, option, &millis);
    }
}
