//! The lead's side: accept, and serve every link.

use std::time::Duration;

use bytes::Bytes;
use omq_proto::CurveKeypair;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakSender, unbounded_channel};

use super::endpoint::Bound;
use super::link::{self, LinkEvent, Stream};

/// News of the links, each named by a number.
pub(crate) type Events = UnboundedSender<(u64, LinkNews)>;

/// What the listener reports.
#[derive(Debug)]
pub(crate) enum LinkNews {
    /// A link was accepted; this is how to send on it.
    Opened(UnboundedSender<Bytes>),
    /// Something happened on it.
    Event(LinkEvent),
}

/// What every link needs.
pub(crate) struct Server {
    /// The certificate's keys.
    pub(crate) keys: CurveKeypair,
    /// How long sent data may stay unacknowledged.
    pub(crate) user_timeout: Option<Duration>,
    /// Who is told.
    pub(crate) events: Events,
    /// Held by links until they have delivered everything.
    pub(crate) alive: WeakSender<()>,
}

/// Accepts for as long as the broker lives.
pub(crate) async fn accept(bound: Bound, server: Server) -> std::io::Result<()> {
    let mut number = 0_u64;
    match bound {
        Bound::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                super::connect::tune(&stream, server.user_timeout);
                number += 1;
                server.serve(number, Box::new(stream));
            }
        }
        Bound::Ipc(listener) => {
            listener.set_nonblocking(true)?;
            let listener = UnixListener::from_std(listener)?;
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                number += 1;
                server.serve(number, Box::new(stream));
            }
        }
    }
}

impl Server {
    fn serve(&self, number: u64, stream: Box<dyn Stream>) {
        let (sender, mut outgoing) = unbounded_channel();
        drop(self.events.send((number, LinkNews::Opened(sender))));
        let (link_events, reports) = unbounded_channel();
        let connection = link::server(&self.keys, link_events.clone());
        let alive = self.alive.upgrade();
        tokio::spawn(relay(number, reports, self.events.clone()));
        tokio::spawn(async move {
            link::run(stream, connection, &mut outgoing, &link_events).await;
            drop(alive);
        });
    }
}

async fn relay(number: u64, mut reports: UnboundedReceiver<LinkEvent>, events: Events) {
    while let Some(event) = reports.recv().await {
        if events.send((number, LinkNews::Event(event))).is_err() {
            return;
        }
    }
}
