//! What servers have in common: addresses, users, failures to accept, and an HTTP server that no client can keep from
//! answering others.

mod connections;
pub mod files;
#[cfg(feature = "tls")]
pub mod tls;
pub mod users;

pub use connections::Authorised;

use connections::Connections;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::error::Error;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Pause after a connection that could not be accepted, as with too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// How long a client may read no byte of an answer, in milliseconds.
const UNREAD_TIMEOUT: u32 = 30_000;

/// All addresses of either kind at `port`, and, for a kernel without IPv6, those of IPv4.
pub fn all_addresses(port: u16) -> [SocketAddr; 2] {
    [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
}

/// What the head of a request may take.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes, at least 8192.
    pub bytes: usize,
    /// Time until it has come.
    pub time: Duration,
}

/// The connection as it is, for [`serve`].
pub fn plain(stream: TcpStream) -> Ready<Option<TcpStream>> {
    ready(Some(stream))
}

/// Answers one request on each connection of `listener`, until the future is dropped. `open` makes of a connection that on
/// which the request comes, as by a handshake, which may take as long as the head of a request. `service` makes what
/// answers on a connection, and each request has its [`Authorised`] among its extensions. Where there are too many
/// connections the oldest without an authorised request is closed.
pub async fn serve<Opened, Stream, Answer, Bytes>(
    listener: TcpListener,
    limits: HeadLimits,
    mut open: impl FnMut(TcpStream) -> Opened,
    mut service: impl FnMut() -> Answer,
) where
    Opened: Future<Output = Option<Stream>> + Send + 'static,
    Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    Answer: Service<Request<Incoming>, Response = Response<Bytes>> + Send + Sync + 'static,
    Answer::Future: Send,
    Answer::Error: Into<Box<dyn Error + Send + Sync>>,
    Bytes: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.time);
    http.keep_alive(false).max_buf_size(limits.bytes);
    let mut connections = Connections::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        connections.make_room().await;
        // The kernel ends a connection whose client reads nothing (tcp(7)).
        if rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_TIMEOUT).is_err() {
            continue;
        }
        // Each write is a whole answer or event, which must not wait for more.
        let _ = stream.set_nodelay(true);
        let (http, opened, service) = (http.clone(), timeout(limits.time, open(stream)), service());
        let authorised = Authorised::default();
        connections.add(authorised.clone(), async move {
            let service = service_fn(|mut request: Request<Incoming>| {
                request.extensions_mut().insert(authorised.clone());
                service.call(request)
            });
            if let Ok(Some(stream)) = opened.await {
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::future::pending;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_handshake_does_not_end_is_closed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = HeadLimits { bytes: 8192, time: Duration::from_secs(10) };
        let respond = || service_fn(async |_| Ok::<_, Infallible>(Response::new(String::new())));
        let client = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap()
        };
        tokio::select! {
            () = serve(listener, limits, |_| pending::<Option<TcpStream>>(), respond) => {}
            read = client => assert_eq!(read, 0),
        }
    }
}
