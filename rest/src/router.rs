//! The server: it admits requests that may do what they ask and are within the limits.

use crate::access::{self, Access};
use crate::answer::{Refusal, complete};
use crate::calls;
use crate::context::{Context, Shared};
use crate::query;
use crate::v1;
use axum::body::{Body, HttpBody as _};
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flux_contract::RestTokens;
use flux_server::tls::Tls;
use flux_server::{Authorised, HeadLimits};
use futures::{FutureExt as _, StreamExt as _};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long the head of a request may take to come, and its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_LIMITS: HeadLimits = HeadLimits { bytes: 16 << 10, time: REQUEST_TIMEOUT };
/// Bytes that the body of a request may have.
const BODY_LIMIT: usize = 1 << 20;
/// Bytes beyond that limit that the server reads and drops: if it closed the connection, the client would lose the answer.
const DROPPED: usize = 32 << 20;
/// The same of a request that needs no token.
const OPEN_BODY_LIMIT: usize = 4 << 10;

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: Option<Tls>, context: Arc<Context>) {
    let calls = calls::routes().merge(v1::calls::routes());
    let router = calls.layer(from_fn_with_state(Arc::clone(&context), answer)).with_state(context);
    let service = || TowerToHyperService::new(router.clone());
    match tls {
        None => flux_server::serve(listener, HEAD_LIMITS, flux_server::plain, service).await,
        Some(tls) => {
            let open = |stream| tls.clone().accept(stream).map(Result::ok);
            flux_server::serve(listener, HEAD_LIMITS, open, service).await;
        }
    }
}

async fn answer(State(context): Shared, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let answer = match admit(&context, request).await {
        Ok((request, token)) => {
            while_valid(next.run(request).await, context.tokens.subscribe(), token)
        }
        Err(refusal) => refusal.into_response(),
    };
    complete(answer, &path)
}

/// The request with its whole body, its query as a value, and what its token gives; and the fingerprint of that token. A
/// client without a token learns no more than that the server is there.
async fn admit(context: &Context, request: Request) -> Result<(Request, Option<String>), Refusal> {
    let (mut head, body) = request.into_parts();
    let needed = access::needed(&head.method, head.uri.path());
    let given = access::given(&head.headers);
    let token = given.map(|given| context.sessions.fingerprint(given, SystemTime::now()));
    let of = |token: &String| Access::of(&context.tokens.borrow(), token);
    let access = token.as_ref().map_or(Access::None, of);
    if access < needed {
        // Only to keep the connection until the client has the answer.
        let _ = whole(body, 0).await;
        return Err(denied(access));
    }
    head.extensions.insert(access);
    let limit = if needed == Access::None { OPEN_BODY_LIMIT } else { BODY_LIMIT };
    let body = whole(body, limit).await;
    let authorised = head.extensions.get::<Authorised>();
    // A client without a token keeps no other out, not even where it needs none.
    if let Some(authorised) = authorised.filter(|_| access > Access::None) {
        authorised.set();
    }
    if let Some(path) = head.extensions.get::<MatchedPath>() {
        let names = query::names(path.as_str(), &head.method);
        let query = query::read(head.uri.query().unwrap_or_default(), &names)?;
        head.extensions.insert(query);
    }
    Ok((Request::from_parts(head, body?.into()), token))
}

/// Why a request is refused whose token gives `access`, which is too little.
fn denied(access: Access) -> Refusal {
    if access == Access::Read {
        let detail = "this token may only read; the one under the key `token` of the same Secret may also submit and cancel jobs";
        return Refusal::new(StatusCode::FORBIDDEN, detail);
    }
    let detail = "send the header Authorization: Bearer TOKEN; the user who started the server, or the Secret that the condition RestReady names, has the token";
    Refusal::new(StatusCode::UNAUTHORIZED, detail)
}

/// The answer, which ends as soon as its `token` gives nothing any more, if it is a stream.
fn while_valid(
    answer: Response,
    mut tokens: watch::Receiver<RestTokens>,
    token: Option<String>,
) -> Response {
    let Some(token) = token.filter(|_| answer.body().size_hint().exact().is_none()) else {
        return answer;
    };
    let replaced = async move {
        let is_nothing = |tokens: &RestTokens| Access::of(tokens, &token) == Access::None;
        drop(tokens.wait_for(is_nothing).await);
    };
    let (head, body) = answer.into_parts();
    let body = body.into_data_stream().take_until(Box::pin(replaced));
    Response::from_parts(head, Body::from_stream(body))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::session::Sessions;
    use axum::http::header::AUTHORIZATION;
    use flux_contract::token::fingerprint;
    use serde_json::json;

    #[tokio::test]
    async fn only_an_authorised_request_keeps_its_connection() {
        let instance = serde_json::from_value(json!({
            "cluster": "", "broker": "", "agent": "", "timeline": [], "users": "", "limits": {}, "validated": false,
            "listen": "127.0.0.1:0", "tokens": "new", "tls": null, "untilInputEnds": false,
        }));
        let sessions = Sessions::new(|_| Ok::<_, ()>(())).unwrap();
        let tokens = access::full(&fingerprint("full"));
        let context = Context::new(instance.unwrap(), tokens, None, sessions);
        for (method, path, token, is_kept) in [
            ("GET", "/health", "", false),
            ("POST", v1::TOKEN, "", false),
            ("POST", access::EXCHANGE, "other", false),
            ("GET", "/api/v1/jobs", "other", false),
            ("GET", "/api/v1/jobs", "full", true),
        ] {
            let mark = Authorised::default();
            let request = Request::builder().method(method).uri(path).extension(mark.clone());
            let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            let _ = admit(&context, request.body(Body::empty()).unwrap()).await;
            assert_eq!(mark.is_set(), is_kept, "{method} {path} {token}");
        }
    }
}
