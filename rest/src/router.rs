//! The server: connections, what each may take of time and memory, and who has the token.

use crate::serve::answer::{Answer, Refusal};
use crate::serve::call::Target;
use crate::serve::context::Context;
use crate::serve::dispatch::{Question, respond};
use crate::serve::feed::Feed;
use crate::serve::query;
use crate::system::connections::{Asked, Connections};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// Bytes that the head of a request may have.
const HEAD_LIMIT: usize = 16 << 10;
/// Bytes that its body may have.
const BODY_LIMIT: usize = 1 << 20;
/// Bytes beyond that which are read all the same: a connection that is closed before would lose its answer.
const DISCARDED: usize = 32 << 20;
/// How long a head may take to come, and a body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take no byte of an answer, in milliseconds.
const UNREAD_TIMEOUT: u32 = 30_000;
/// Pause before the next connection when one could not be accepted, as with too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// What is served.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) context: Arc<Context>,
    pub(super) feed: Arc<Feed>,
}

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, context: Context) {
    let served = Served { context: Arc::new(context), feed: Arc::new(Feed::new()) };
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.make_room().await;
                let asked = Asked::default();
                connections.add(asked.clone(), converse(stream, served.clone(), asked));
            }
            Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

/// One question and its answer.
async fn converse(stream: TcpStream, served: Served, asked: Asked) {
    // The kernel ends a connection whose client takes nothing (tcp(7)).
    if rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_TIMEOUT).is_err() {
        return;
    }
    // An answer is written whole.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(|request: Request<Incoming>| {
        let (served, asked) = (&served, &asked);
        async move {
            let path = request.uri().path().to_owned();
            let answered = answer(request, served, asked).await;
            Ok::<Answer, Infallible>(answered.unwrap_or_else(|refusal| refusal.answer(&path)))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    builder.keep_alive(false).max_buf_size(HEAD_LIMIT);
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

/// Nobody without the token learns more than that the server is there.
async fn answer(
    request: Request<Incoming>,
    served: &Served,
    asked: &Asked,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let target = Target::of(head.uri.path());
    let is_open = target.as_ref().is_ok_and(|target| !target.needs_token());
    let bearer = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let text = head.uri.query().unwrap_or_default();
    let in_query = || {
        let mut parts = form_urlencoded::parse(text.as_bytes());
        let is_page = matches!(target, Ok(Target::Page));
        parts.find(|(name, _)| is_page && name == "token").map(|(_, token)| token)
    };
    let token = &served.context.token;
    let is_known = match bearer {
        Some((_, given)) => token.is(given.trim()),
        None => in_query().is_some_and(|given| token.is(&given)),
    };
    if !is_open && !is_known {
        // The body is read for the answer's sake; how it is does not matter.
        let _ = whole(body, 0).await;
        let detail =
            "send the header Authorization: Bearer TOKEN; whoever started the server has the token";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, detail));
    }
    let body = whole(body, BODY_LIMIT).await;
    asked.set();
    let target = target?;
    let method = head.method.as_str();
    if !target.methods().contains(&method) {
        return Err(Refusal::method(target.methods()));
    }
    let query = query::read(text, target.query(method))?;
    let path = head.uri.path();
    respond(served, Question { target, method, path, query, headers: &head.headers, body: body? })
        .await
}

/// The body, if it has at most `limit` bytes and comes in time.
async fn whole(mut body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    let read = async {
        let (mut bytes, mut length) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refusal::bad(format!("the body: {error}")))?;
            let data = frame.into_data().unwrap_or_default();
            length += data.len();
            if length <= limit {
                bytes.extend_from_slice(&data);
            } else if length > limit + DISCARDED {
                break;
            }
        }
        let detail = format!("the body has more than {limit} bytes");
        let too_large = || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
        (length <= limit).then(|| bytes.into()).ok_or_else(too_large)
    };
    let late = || Refusal::bad(format!("the body has not come within {REQUEST_TIMEOUT:?}"));
    timeout(REQUEST_TIMEOUT, read).await.unwrap_or_else(|_| Err(late()))
}
