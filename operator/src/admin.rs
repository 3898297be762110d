//! `/healthz`, `/readyz` and `/metrics`.
//!
//! The operator counts as alive while the reconcile thread sends heartbeats. The guard of a reconcile cancels one
//! that waits for more than a minute, so only a reconcile that computes without end can block that thread.

use crate::metrics::Metrics;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::Mutex;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Time without a heartbeat of the reconcile thread after which the operator is unhealthy.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// State behind the probes. The time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Health {
    last_heartbeat: Mutex<Instant>,
    is_ready: AtomicBool,
    /// Message about the fields that the served CustomResourceDefinition lacks, if it lacks some.
    missing_fields: Mutex<Option<String>>,
}

impl Health {
    /// Healthy at `now`, and not ready yet.
    pub(crate) const fn new(now: Instant) -> Self {
        let is_ready = AtomicBool::new(false);
        Self { last_heartbeat: Mutex::new(now), is_ready, missing_fields: Mutex::new(None) }
    }

    pub(crate) fn heartbeat(&self, now: Instant) {
        *self.last_heartbeat.lock() = now;
    }

    /// Why the kubelet has to restart the operator; `None` while the operator is healthy.
    pub(crate) fn unhealthy_reason(&self, now: Instant) -> Option<String> {
        let since = now.saturating_duration_since(*self.last_heartbeat.lock());
        (since > HEARTBEAT_TIMEOUT)
            .then(|| format!("the reconcile thread sent no heartbeat for {} s", since.as_secs()))
    }

    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Sets the message about the fields that the served CustomResourceDefinition lacks.
    pub(crate) fn set_missing_fields(&self, missing_fields: Option<String>) {
        *self.missing_fields.lock() = missing_fields;
    }

    /// Why the operator is not ready; `None` once it is.
    pub(crate) fn unready_reason(&self) -> Option<String> {
        let synced = self.is_ready.load(Ordering::Acquire);
        let unsynced = (!synced).then(|| "the watches have not listed all objects".to_owned());
        unsynced.or_else(|| self.missing_fields.lock().clone())
    }
}

/// Serves the endpoints until a listener fails; on one listener where both addresses are equal.
pub(crate) async fn serve(
    health_address: SocketAddr,
    metrics_address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> Result<()> {
    let probes = Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(health);
    let metrics = Router::new().route("/metrics", get(text).with_state(metrics));
    if health_address == metrics_address {
        return listen(health_address, probes.merge(metrics)).await;
    }
    futures::try_join!(listen(health_address, probes), listen(metrics_address, metrics))?;
    Ok(())
}

async fn healthy(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    let Some(unhealthy_reason) = health.unhealthy_reason(Instant::now()) else {
        return (StatusCode::OK, "ok".to_owned());
    };
    tracing::error!(unhealthy_reason, "the operator is not healthy");
    (StatusCode::SERVICE_UNAVAILABLE, unhealthy_reason)
}

async fn ready(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    match health.unready_reason() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    }
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    let content = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0")];
    metrics.text().map(|text| (content, text)).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn listen(address: SocketAddr, routes: Router) -> Result<()> {
    let listener = bind(address).await.with_context(|| format!("listen on {address}"))?;
    let address = listener.local_addr().context("read the address of a listener")?;
    tracing::info!(%address, "listening");
    axum::serve(listener, routes).await.with_context(|| format!("serve {address}"))
}

/// Binds `address`. `[::]` also receives IPv4; where the kernel has no IPv6, `0.0.0.0` takes its place.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let refused = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(refused) => refused,
    };
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return Err(refused);
    }
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await.map_err(|_| refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_default_addresses_listen_on_ipv4_and_ipv6() {
        let Command::Run(run) = Cli::parse_from(["flux-operator", "run"]).command else {
            panic!("expected the command run");
        };
        assert_eq!((run.metrics_bind.port(), run.health_bind.port()), (8080, 8081));
        let listener = bind(SocketAddr::new(run.health_bind.ip(), 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        // Skip the check for IPv6 on a machine without IPv6.
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_operator_without_a_heartbeat_is_unhealthy() {
        let begin = Instant::now().checked_sub(2 * HEARTBEAT_TIMEOUT).unwrap();
        let health = Arc::new(Health::new(begin));
        assert_eq!(health.unhealthy_reason(begin + HEARTBEAT_TIMEOUT), None);
        let late = begin + HEARTBEAT_TIMEOUT + Duration::from_secs(1);
        assert!(health.unhealthy_reason(late).unwrap().contains("61 s"));
        let (code, text) = healthy(State(Arc::clone(&health))).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("sent no heartbeat"), "{text}");
        health.heartbeat(Instant::now());
        assert_eq!(healthy(State(health)).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn readiness_follows_the_watches_and_the_definition() {
        let health = Arc::new(Health::new(Instant::now()));
        assert_eq!(ready(State(Arc::clone(&health))).await.0, StatusCode::SERVICE_UNAVAILABLE);
        health.set_ready();
        assert_eq!(ready(State(Arc::clone(&health))).await.0, StatusCode::OK);
        health.set_missing_fields(Some("lacks spec.size".to_owned()));
        assert!(ready(State(Arc::clone(&health))).await.1.contains("spec.size"));
        health.set_missing_fields(None);
        assert_eq!(ready(State(health)).await.0, StatusCode::OK);
    }
}
