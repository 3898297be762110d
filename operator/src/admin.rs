//! `/healthz`, `/readyz` and `/metrics`.
//!
//! The operator is alive as long as the thread that reconciles comes round. That is enough: a reconcile that waits is
//! given up after a minute, by that thread, and one that computes keeps it.

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

/// Longest time without a beat of the thread that reconciles.
const NO_BEAT: Duration = Duration::from_mins(1);
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// The time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Health {
    last_beat: Mutex<Instant>,
    is_ready: AtomicBool,
    /// What the definition of MiniCluster lacks, as far as it is known.
    lacks: Mutex<Option<String>>,
}

impl Health {
    /// All is well at `now`, and nothing is ready yet.
    pub(crate) const fn new(now: Instant) -> Self {
        let is_ready = AtomicBool::new(false);
        Self { last_beat: Mutex::new(now), is_ready, lacks: Mutex::new(None) }
    }

    pub(crate) fn beat(&self, now: Instant) {
        *self.last_beat.lock() = now;
    }

    /// Why the operator has to be started again, if it has to.
    pub(crate) fn stuck(&self, now: Instant) -> Option<String> {
        let since = now.saturating_duration_since(*self.last_beat.lock());
        (since > NO_BEAT).then(|| {
            format!("the thread that reconciles has not come round for {} s", since.as_secs())
        })
    }

    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// Notes what the definition of MiniCluster lacks, if it does.
    pub(crate) fn set_lacks(&self, lacks: Option<String>) {
        *self.lacks.lock() = lacks;
    }

    /// Why the operator is not ready, if it is not.
    pub(crate) fn unready(&self) -> Option<String> {
        let synced = self.is_ready.load(Ordering::Acquire);
        let unsynced = (!synced).then(|| "the watches are not synced yet".to_owned());
        unsynced.or_else(|| self.lacks.lock().clone())
    }
}

/// Serves the endpoints until it fails; with two equal addresses, on one listener.
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
    let Some(stuck) = health.stuck(Instant::now()) else {
        return (StatusCode::OK, "ok".to_owned());
    };
    tracing::error!(stuck, "not healthy");
    (StatusCode::SERVICE_UNAVAILABLE, stuck)
}

async fn ready(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    match health.unready() {
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

/// `[::]` is every address, of IPv4 too; where the kernel has no IPv6, it is those of IPv4.
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
        // A machine without IPv6 has no such address.
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_operator_without_a_heartbeat_is_unhealthy() {
        let begin = Instant::now().checked_sub(2 * NO_BEAT).unwrap();
        let health = Arc::new(Health::new(begin));
        assert_eq!(health.stuck(begin + NO_BEAT), None);
        assert!(health.stuck(begin + NO_BEAT + Duration::from_secs(1)).unwrap().contains("61 s"));
        let (code, text) = healthy(State(Arc::clone(&health))).await;
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("has not come round"), "{text}");
        health.beat(Instant::now());
        assert_eq!(healthy(State(health)).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn readiness_follows_the_watches_and_the_definition() {
        let health = Arc::new(Health::new(Instant::now()));
        assert_eq!(ready(State(Arc::clone(&health))).await.0, StatusCode::SERVICE_UNAVAILABLE);
        health.set_ready();
        assert_eq!(ready(State(Arc::clone(&health))).await.0, StatusCode::OK);
        health.set_lacks(Some("lacks spec.size".to_owned()));
        assert!(ready(State(Arc::clone(&health))).await.1.contains("spec.size"));
        health.set_lacks(None);
        assert_eq!(ready(State(health)).await.0, StatusCode::OK);
    }
}
