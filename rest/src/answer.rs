//! Answers, and refusals, which all have one shape.

use crate::system::output::chain;
use bytes::Bytes;
use flux_protocol::client::SocketError;
use futures::{Stream, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use nix::errno::Errno;
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, interval_at};

pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// Seconds after which to ask again.
pub(super) const RETRY: HeaderValue = HeaderValue::from_static("1");
/// How long a stream is silent at most.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);
/// What no answer goes without: a browser keeps none, does not guess what it is, and tells no other site of the token in
/// the page's address.
const HEADERS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
];

fn of_body(kind: &'static str, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// An answer of this `kind`.
pub(super) fn whole(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    of_body(kind, Full::new(body.into()).boxed_unsync())
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut answer = whole(JSON, serde_json::to_vec(value).unwrap_or_default());
    *answer.status_mut() = status;
    answer
}

/// Server-sent events as they come, with a comment at once and where none has come for a while, by which both sides see
/// that the other is there.
pub(super) fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let ticks = interval_at(Instant::now() + LONGEST_SILENCE, LONGEST_SILENCE);
    let state = (Box::pin(events), ticks);
    let with_comments = stream::unfold(state, |(mut events, mut ticks)| async move {
        let next = tokio::select! {
            event = events.next() => event?,
            _ = ticks.tick() => Bytes::from_static(b": nothing new\n\n"),
        };
        Some((next, (events, ticks)))
    });
    let first = stream::iter([Bytes::from_static(b": connected\n\n")]);
    let frames = first.chain(with_comments).map(|bytes| Ok(Frame::data(bytes)));
    of_body(EVENT_STREAM, StreamBody::new(frames).boxed_unsync())
}

/// One server-sent event. JSON has no line ends of its own.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// What is wrong, and what to do.
    pub(super) detail: String,
    /// Methods that would have been right.
    allowed: Option<&'static [&'static str]>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), allowed: None }
    }

    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn method(allowed: &'static [&'static str]) -> Self {
        let detail = format!("here is {}", allowed.join(", "));
        Self { allowed: Some(allowed), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// The document of every refusal.
    pub(super) fn document(&self, path: &str) -> impl Serialize {
        let error = self.status.canonical_reason().unwrap_or_default();
        json!({ "error": error, "detail": self.detail, "path": path })
    }

    pub(super) fn answer(&self, path: &str) -> Answer {
        let mut answer = json(self.status, &self.document(path));
        let headers = answer.headers_mut();
        if let Some(allowed) = self.allowed
            && let Ok(value) = HeaderValue::from_str(&allowed.join(", "))
        {
            headers.insert(ALLOW, value);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, RETRY);
        }
        answer
    }
}

/// What Flux does not know is not found, what it does not take is a mistake of whoever asks, and all else is that it
/// cannot be asked now.
impl From<SocketError> for Refusal {
    fn from(error: SocketError) -> Self {
        let status = if error.is(Errno::ENOENT) {
            return Self::new(StatusCode::NOT_FOUND, "there is no such job");
        } else if error.is(Errno::EINVAL) || error.is(Errno::EPROTO) {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Self::new(status, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_in_words_and_in_headers() {
        let refused = Refusal::method(&["GET", "POST"]).answer("/x");
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()[ALLOW]),
            (405, &"GET, POST".parse().unwrap())
        );
        let failed = |errno: Errno| {
            let errno = errno as u32;
            SocketError::Failed { topic: "t".to_owned(), errno, text: "x".to_owned() }
        };
        let status = |errno| Refusal::from(failed(errno)).status.as_u16();
        assert_eq!([Errno::ENOENT, Errno::EINVAL, Errno::ENOSYS].map(status), [404, 400, 503]);
        let away = Refusal::from(SocketError::Silent { topic: "t".to_owned() }).answer("/x");
        assert_eq!(away.headers()[RETRY_AFTER], "1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_has_comments() {
        let mut body = events(stream::pending()).into_body();
        for expected in [": connected\n\n", ": nothing new\n\n"] {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(frame, expected);
        }
        let one = stream::iter([event("end", &json!({ "a": "b\nc" }))]);
        let all = events(one).into_body().collect().await.unwrap().to_bytes();
        assert_eq!(all, ": connected\n\nevent: end\ndata: {\"a\":\"b\\nc\"}\n\n");
    }
}
