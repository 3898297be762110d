//! `/healthz`, `/readyz` and `/metrics`.
//!
//! The operator counts as alive while the reconcile thread sends heartbeats. The guard of a reconcile cancels one
//! that waits for more than a minute, so only a reconcile that computes without end can block that thread.
//!
//! Unless the administrator wants plain metrics, they are served over TLS to those whom Kubernetes allows to read them.

mod certificate;
mod gate;

use crate::cli::RunArguments;
use crate::metrics::Metrics;
use anyhow::{Context as _, Result, bail};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use certificate::Certificate;
use flux_server::HeadLimits;
use futures::FutureExt as _;
use gate::{Gate, METRICS_PATH, guard};
use hyper_util::service::TowerToHyperService;
use kube::Client;
use parking_lot::Mutex;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// Limits of a handshake and of the head of a request for metrics, which has a token.
const HEAD: HeadLimits = HeadLimits { bytes: 16 << 10, time: Duration::from_secs(10) };
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

/// Where the endpoints are, and what protects the metrics.
pub(crate) struct Endpoints {
    health: SocketAddr,
    metrics: SocketAddr,
    /// `None` where the administrator wants plain metrics.
    protection: Option<Protection>,
}

struct Protection {
    certificate: Certificate,
    gate: Arc<Gate>,
}

impl Endpoints {
    /// What the arguments ask for. `client` asks the API server who may read the metrics.
    pub(crate) fn new(arguments: &RunArguments, client: Client) -> Result<Self> {
        let (health, metrics) = (arguments.health_bind, arguments.metrics_bind);
        let directory = arguments.metrics_cert_path.clone();
        let endpoints = Self { health, metrics, protection: None };
        if !arguments.metrics_secure {
            if directory.is_some() {
                bail!(
                    "--metrics-cert-path is for metrics over TLS, and --metrics-secure=false \
                     serves them without: remove one of the two"
                );
            }
            return Ok(endpoints);
        }
        if health == metrics && health.port() != 0 {
            bail!(
                "--health-bind and --metrics-bind are both {health}, but only the metrics have \
                 TLS: give two ports, or --metrics-secure=false"
            );
        }
        let certificate = Certificate::new(directory)?;
        let protection = Protection { certificate, gate: Arc::new(Gate::new(client)) };
        Ok(Self { protection: Some(protection), ..endpoints })
    }

    /// Serves the endpoints until a listener fails; plain ones on one listener where both addresses are equal.
    pub(crate) async fn serve(self, health: Arc<Health>, metrics: Arc<Metrics>) -> Result<()> {
        let probes = Router::new()
            .route("/healthz", get(healthy))
            .route("/readyz", get(ready))
            .with_state(health);
        let metrics = metrics_route(metrics);
        if let Some(protection) = self.protection {
            let listener = listener(self.metrics).await?;
            let protected = serve_protected(listener, metrics, protection).map(Ok);
            futures::try_join!(listen(self.health, probes), protected)?;
        } else if self.health == self.metrics {
            listen(self.health, probes.merge(metrics)).await?;
        } else {
            futures::try_join!(listen(self.health, probes), listen(self.metrics, metrics))?;
        }
        Ok(())
    }
}

fn metrics_route(metrics: Arc<Metrics>) -> Router {
    Router::new().route(METRICS_PATH, get(text).with_state(metrics))
}

/// Serves `metrics` over TLS to those whom Kubernetes allows to read them.
async fn serve_protected(listener: TcpListener, metrics: Router, protection: Protection) {
    let Protection { certificate, gate } = protection;
    let routes = metrics.route_layer(from_fn_with_state(gate, guard));
    let tls = certificate.tls.clone();
    let open = |stream: TcpStream| tls.clone().accept(stream).map(Result::ok);
    let served =
        flux_server::serve(listener, HEAD, open, || TowerToHyperService::new(routes.clone()));
    tokio::select! {
        () = served => {}
        () = certificate.follow() => {}
    }
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
    let listener = listener(address).await?;
    axum::serve(listener, routes).await.with_context(|| format!("serve {address}"))
}

async fn listener(address: SocketAddr) -> Result<TcpListener> {
    let listener = bind(address).await.with_context(|| format!("listen on {address}"))?;
    let address = listener.local_addr().context("read the address of a listener")?;
    tracing::info!(%address, "listening");
    Ok(listener)
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
    use flux_testkit::faults::Failure;
    use flux_testkit::server::Server;
    use std::path::Path;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn arguments(more: &[&str]) -> RunArguments {
        let Command::Run(run) =
            Cli::parse_from(["flux-operator", "run"].iter().chain(more)).command
        else {
            panic!("expected the command run");
        };
        *run
    }

    #[tokio::test]
    async fn the_default_addresses_listen_on_ipv4_and_ipv6() {
        let run = arguments(&[]);
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

    #[tokio::test]
    async fn metrics_are_protected_unless_the_arguments_say_otherwise() {
        let new = |more: &[&str]| Endpoints::new(&arguments(more), Server::default().client());
        assert!(new(&[]).unwrap().protection.is_some());
        assert!(new(&["--metrics-secure=false"]).unwrap().protection.is_none());
        let same = ["--metrics-bind=[::]:1", "--health-bind=[::]:1"];
        assert!(new(&["--metrics-secure=false", same[0], same[1]]).is_ok());
        for (wrong, message) in [
            (&same[..], "give two ports, or --metrics-secure=false"),
            (&["--metrics-secure=false", "--metrics-cert-path=/x"], "remove one of the two"),
            (&["--metrics-cert-path=/none"], "use --metrics-cert-path /none"),
        ] {
            let error = new(wrong).err().unwrap().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    /// The answer to a request for `path` over TLS.
    async fn answer(
        address: SocketAddr,
        certificate: &Path,
        path: &str,
        authorization: &str,
    ) -> String {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = certificate::tests::connect(stream, certificate).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: it\r\nAuthorization: {authorization}");
        stream.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn metrics_over_tls_are_for_those_who_may_read_them() {
        let (server, directory) = (gate::tests::server(), certificate::tests::directory());
        let certificate = directory.path();
        let argument = format!("--metrics-cert-path={}", certificate.display());
        let endpoints = Endpoints::new(&arguments(&[&argument]), server.client()).unwrap();
        let listener = listener("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = metrics_route(Arc::default());
        tokio::spawn(serve_protected(listener, routes, endpoints.protection.unwrap()));
        let answer = |path, token| answer(address, certificate, path, token);
        for (token, status) in [
            ("", "401 "),
            ("Bearer", "401 "),
            ("Bearer none", "401 "),
            ("Bearer other", "403 "),
            ("Basic reader", "401 "),
            ("Bearer reader", "200 "),
            ("bearer  reader ", "200 "),
        ] {
            let text = answer("/metrics", token).await;
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{token}: {text}");
            assert_eq!(text.contains("flux_operator_is_leader 0"), status == "200 ", "{text}");
            assert_eq!(text.contains("www-authenticate: Bearer"), status == "401 ", "{text}");
        }
        assert!(answer("/healthz", "Bearer reader").await.starts_with("HTTP/1.1 404 "));
        server.set_outage(Some(Failure::Refused(500)));
        let text = answer("/metrics", "Bearer new").await;
        assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("log has the reason"), "{text}");
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        // The server closes the connection, with an alert of TLS or without.
        let _ = plain.read_to_end(&mut bytes).await;
        assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
    }
}
