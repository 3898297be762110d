//! Answers, and refusals, which all have one shape.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, HeaderName, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use flux_protocol::client::SocketError;
use futures::{Stream, StreamExt as _, stream};
use nix::errno::Errno;
use serde::Serialize;
use serde_json::{Map, Value};
use std::convert::Infallible;
use std::time::Duration;

/// Seconds after which a client may try again.
pub(crate) const RETRY: &str = "1";
/// The longest time without a line in a stream of events: a comment shows each side that the other is there.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);
/// The headers of every answer: a browser keeps none, does not guess what it is, and names the page's address to no other
/// site.
const HEADERS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
];

/// Server-sent events as they come.
pub(crate) fn events(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let all = stream::iter([Event::default().comment("connected")]).chain(events);
    let keep_alive = KeepAlive::new().interval(LONGEST_SILENCE).text("nothing new");
    Sse::new(all.map(Ok::<_, Infallible>)).keep_alive(keep_alive).into_response()
}

/// One server-sent event.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).json_data(data).unwrap_or_default()
}

pub(crate) type Answer = Result<Response, Refusal>;
/// An answer that is a document.
pub(crate) type Document = Result<Json<Value>, Refusal>;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    /// What is wrong, and what to do.
    pub(crate) detail: String,
    /// Other fields of the document.
    more: Map<String, Value>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), more: Map::new() }
    }

    /// For a job that there is not, or another thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The same with another field in the document.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The document of every refusal.
    pub(crate) fn document(&self, path: &str) -> Value {
        let error = self.status.canonical_reason().unwrap_or_default();
        let fields = [("error", error), ("detail", &self.detail), ("path", path)];
        let mut document = self.more.clone();
        document.extend(fields.map(|(name, text)| (name.to_owned(), text.into())));
        document.into()
    }

    fn answer(&self, path: &str) -> Response {
        let unauthorised = self.status == StatusCode::UNAUTHORIZED;
        let scheme = unauthorised.then_some([(WWW_AUTHENTICATE, "Bearer")]);
        let unavailable = self.status == StatusCode::SERVICE_UNAVAILABLE;
        let retry = unavailable.then_some([(RETRY_AFTER, RETRY)]);
        (self.status, scheme, retry, Json(self.document(path))).into_response()
    }
}

/// [`complete`] makes the document, because it knows the path.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut answer = self.status.into_response();
        answer.extensions_mut().insert(self);
        answer
    }
}

/// The answer to a request for `path`, with the document of its refusal and with all headers.
pub(crate) fn complete(mut answer: Response, path: &str) -> Response {
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        let detail = "the header Allow has the methods of this path";
        answer = Refusal::new(answer.status(), detail).into_response();
    }
    if let Some(refusal) = answer.extensions_mut().remove::<Refusal>() {
        answer = refusal.answer(path);
    }
    (HEADERS, answer).into_response()
}

/// What Flux does not know is not found, what it refuses is a mistake of the client, and with every other error the client
/// may try again.
impl From<SocketError> for Refusal {
    fn from(error: SocketError) -> Self {
        if error.is(Errno::ENOENT) {
            return Self::not_found("there is no such job");
        }
        let is_mistake = error.is(Errno::EINVAL) || error.is(Errno::EPROTO);
        let status =
            if is_mistake { StatusCode::BAD_REQUEST } else { StatusCode::SERVICE_UNAVAILABLE };
        Self::new(status, format!("{:#}", anyhow::Error::from(error)))
    }
}
