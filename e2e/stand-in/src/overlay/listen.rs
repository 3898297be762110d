//! The lead's side: accept, and serve every link.

use bytes::Bytes;
use omq_proto::CurveKeypair;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, WeakSender, unbounded_channel};

use super::link::{self, LinkEvent};
use crate::broker::core::News;

/// What every link needs.
pub(crate) struct Server {
    /// The certificate's keys.
    pub(crate) keys: CurveKeypair,
    /// Receives the events of links, each of which has a number.
    pub(crate) news: UnboundedSender<News>,
    /// Held by links until they have delivered everything.
    pub(crate) alive: WeakSender<()>,
}

/// Accepts for as long as the broker lives.
pub(crate) async fn accept(listener: TcpListener, server: Server) {
    let mut number = 0_u64;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        number += 1;
        server.serve(number, stream);
    }
}

impl Server {
    fn serve(&self, number: u64, stream: TcpStream) {
        let (sender, mut outgoing): (UnboundedSender<Bytes>, _) = unbounded_channel();
        let news = self.news.clone();
        let report = move |event| drop(news.send(News::Child(number, event)));
        report(LinkEvent::Opened(sender));
        let connection = link::server(&self.keys, report.clone());
        let alive = self.alive.upgrade();
        tokio::spawn(async move {
            link::run(stream, connection, &mut outgoing, report).await;
            drop(alive);
        });
    }
}
