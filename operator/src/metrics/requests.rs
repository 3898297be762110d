//! Counts requests to the API server by verb and HTTP status, as a layer of the client: kube has no such metrics.

use axum::http::{Method, Request, Response, StatusCode};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::client::Body;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::task::{Context, Poll};
use tower::{Layer, Service};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Family<RequestLabels, Counter>);

impl Requests {
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let requests = Self::default();
        registry.register(
            "api_requests",
            "Requests to the API server that have ended, by verb and HTTP status; none: without an answer",
            requests.0.clone(),
        );
        requests
    }

    pub(super) fn count(&self, verb: &'static str, status: Option<StatusCode>) {
        self.0.get_or_create(&RequestLabels { verb, code: code(status) }).inc();
    }
}

/// The verb of a request as Kubernetes names it; a list counts as get.
fn verb(method: &Method, query: Option<&str>) -> &'static str {
    match *method {
        Method::GET if query.is_some_and(|query| query.contains("watch=true")) => "watch",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// The label of a response. Unknown codes, which a proxy may send, are "other".
fn code(status: Option<StatusCode>) -> String {
    let Some(status) = status else { return "none".to_owned() };
    status.canonical_reason().map_or("other", |_| status.as_str()).to_owned()
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, requests: self.clone() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(request.method(), request.uri().query());
        let requests = self.requests.clone();
        let response = self.inner.call(request);
        let counted = response.inspect(move |response| {
            requests.count(verb, response.as_ref().ok().map(Response::status));
        });
        counted.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_labels_are_few() {
        for (method, query, expected) in [
            (Method::GET, None, "get"),
            (Method::GET, Some("limit=5&watch=true"), "watch"),
            (Method::POST, None, "create"),
            (Method::TRACE, None, "other"),
        ] {
            assert_eq!(verb(&method, query), expected);
        }
        let all = (100..1000).map(|number| code(StatusCode::from_u16(number).ok()));
        let all: std::collections::BTreeSet<_> = all.chain([code(None)]).collect();
        assert!(
            all.len() < 70 && ["200", "503", "none", "other"].iter().all(|it| all.contains(*it))
        );
    }
}
