//! The worker's side: connect, and connect again, for ever.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use omq_proto::CurveKeypair;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::link::{self, LinkEvent};
use super::{endpoint, resolve};
use crate::broker::core::News;

/// Pause between attempts, as in libzmq.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Where and how to connect.
#[derive(Debug, Clone)]
pub(crate) struct Uplink {
    /// The parent's `connect` URI.
    pub(crate) uri: String,
    /// Certificate shared by all brokers.
    pub(crate) keys: CurveKeypair,
    /// Whether IPv6 addresses are used.
    pub(crate) ipv6: bool,
    /// Limit of one TCP connection attempt.
    pub(crate) connect_timeout: Duration,
}

/// Keeps the link up. Ends when `outgoing` is closed. A name that does not resolve is reported
/// once, and tried again.
pub(crate) async fn keep_connected(
    uplink: Uplink,
    mut outgoing: UnboundedReceiver<Bytes>,
    news: UnboundedSender<News>,
) {
    let report = |event| drop(news.send(News::Parent(event)));
    let mut reported = false;
    while !outgoing.is_closed() {
        match attempt(&uplink).await {
            Ok(Some(stream)) => {
                link::run(stream, link::client(&uplink.keys), &mut outgoing, report).await;
            }
            Err(reason) if !reported => {
                reported = true;
                report(LinkEvent::Unresolved(reason));
            }
            Ok(None) | Err(_) => {}
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// One attempt; the error is a name without an address, and why.
async fn attempt(uplink: &Uplink) -> Result<Option<TcpStream>, String> {
    let Some((host, port)) = endpoint::host_and_port(&uplink.uri) else { return Ok(None) };
    let addresses = resolve::addresses(host, uplink.ipv6).await;
    let addresses = addresses.map_err(|reason| format!("{host}: {reason}"))?;
    let Some(address) = addresses.first() else { return Ok(None) };
    let connecting = TcpStream::connect(SocketAddr::new(*address, port));
    let connected = tokio::time::timeout(uplink.connect_timeout, connecting).await;
    Ok(connected.ok().and_then(Result::ok))
}
