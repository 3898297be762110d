//! The server: it admits requests that have the token and are within the limits.

use crate::answer::{Refusal, complete};
use crate::calls::{self, Served};
use crate::context::Context;
use crate::query;
use crate::v1;
use crate::v1::session::Sessions;
use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flux_server::{Authorised, HeadLimits};
use futures::StreamExt as _;
use hyper_util::service::TowerToHyperService;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// How long the head of a request may take to come, and its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_LIMITS: HeadLimits = HeadLimits { bytes: 16 << 10, time: REQUEST_TIMEOUT };
/// Bytes that the body of a request may have.
const BODY_LIMIT: usize = 1 << 20;
/// Bytes beyond that limit that the server reads and drops: if it closed the connection, the client would lose the answer.
const DROPPED: usize = 32 << 20;
/// The paths that need no token in the header: the page itself shows nothing without one.
const OPEN: [&str; 4] = ["/", "/health", "/api/v1/health", v1::TOKEN];

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, context: Context, sessions: Sessions) {
    let router = router(Served::new(context, sessions));
    flux_server::serve(listener, HEAD_LIMITS, || TowerToHyperService::new(router.clone())).await;
}

fn router(served: Served) -> Router {
    let routes = calls::routes().merge(v1::calls::routes());
    routes.layer(from_fn_with_state(served.clone(), answer)).with_state(served)
}

async fn answer(State(served): State<Served>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answer = match admit(&served, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    complete(answer, &path)
}

/// The request with its whole body, and with its query as a value. A client without the token learns no more than that
/// the server is there.
async fn admit(served: &Served, request: Request) -> Result<Request, Refusal> {
    let (mut head, body) = request.into_parts();
    if !OPEN.contains(&head.uri.path()) && !has_token(&head, served) {
        // Only to keep the connection until the client has the answer.
        let _ = whole(body, 0).await;
        let detail = "send the header Authorization: Bearer TOKEN; the user who started the server has the token";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, detail));
    }
    let body = whole(body, BODY_LIMIT).await;
    if let Some(authorised) = head.extensions.get::<Authorised>() {
        authorised.set();
    }
    if let Some(path) = head.extensions.get::<MatchedPath>() {
        let names = query::names(path.as_str(), &head.method);
        let query = query::read(head.uri.query().unwrap_or_default(), names)?;
        head.extensions.insert(query);
    }
    Ok(Request::from_parts(head, body?.into()))
}

fn has_token(head: &Parts, served: &Served) -> bool {
    let header = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let header = header.and_then(|value| value.split_once(' '));
    let given = header.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| {
        served.context.accepts(&served.sessions.fingerprint(given.trim(), SystemTime::now()))
    })
}

/// The body, if it has at most `limit` bytes and comes in time.
async fn whole(body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let read = async {
        let (mut bytes, mut length, mut data) = (Vec::new(), 0, body.into_data_stream());
        while let Some(data) = data.next().await {
            let data = data.map_err(|error| Refusal::bad(format!("the body: {error}")))?;
            length += data.len();
            if length <= limit {
                bytes.extend_from_slice(&data);
            } else if length > limit + DROPPED {
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
