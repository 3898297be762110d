//! `/healthz`, `/readyz` and `/metrics`.

use crate::metrics::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;

/// Why an endpoint does not answer.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server ended.
    #[error("serve {address}")]
    Serve {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Whether the operator is ready: it stands by, or it knows every MiniCluster there is.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether it is ready from now on.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    /// Whether it is ready.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Serves the endpoints until it fails; with two equal addresses, on one listener.
pub async fn serve(
    health: SocketAddr,
    metrics_address: SocketAddr,
    readiness: Readiness,
    metrics: Arc<Metrics>,
) -> Result<(), AdminError> {
    if health == metrics_address {
        return listen(health, health_routes(readiness).merge(metrics_routes(metrics))).await;
    }
    futures::try_join!(
        listen(health, health_routes(readiness)),
        listen(metrics_address, metrics_routes(metrics)),
    )
    .map(|((), ())| ())
}

fn health_routes(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready).with_state(readiness))
}

fn metrics_routes(metrics: Arc<Metrics>) -> Router {
    Router::new().route("/metrics", get(text).with_state(metrics))
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    if readiness.get() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the watches are not synced yet")
    }
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    let content = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0")];
    metrics.text().map(|text| (content, text)).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn listen(address: SocketAddr, routes: Router) -> Result<(), AdminError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| AdminError::Listen { address, source })?;
    tracing::info!(%address, "listening");
    axum::serve(listener, routes).await.map_err(|source| AdminError::Serve { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readiness_follows_what_was_set() {
        let readiness = Readiness::default();
        assert_eq!(ready(State(readiness.clone())).await.0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.set(true);
        assert_eq!(ready(State(readiness)).await.0, StatusCode::OK);
    }
}
