//! A real `HorizontalPodAutoscaler` sets the size, by a metric that this test serves as an adapter would
//! (`external.metrics.k8s.io`).

use crate::replace::await_up;
use crate::{DEADLINE, apply, await_status, exec, ready_lead, trial};
use anyhow::{Context as _, Result, ensure};
use axum::{Json, Router, extract::State, routing::get};
use e2e::{environment::Environment, not_run, progress::Progress, trial::Trial, wait};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::server::TlsStream;

/// Name of the API that the test serves.
const API: &str = "v1beta1.external.metrics.k8s.io";
const FLUX: &str = "/mnt/flux/bin/flux";
/// The API server looks when an API or its endpoints change, and again soon after a failure.
const REACH: Duration = Duration::from_secs(45);

/// Takes connections with TLS; the `APIService` has `insecureSkipTLSVerify`.
struct Listener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, peer)) = self.tcp.accept().await
                && let Ok(stream) = self.tls.accept(stream).await
            {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// The address of this machine that `node` reaches: the one from which packets to it leave.
fn address_towards(node: IpAddr) -> Result<IpAddr> {
    let any: IpAddr =
        if node.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent: the kernel looks for the way.
    socket.connect((node, 443)).with_context(|| format!("looking for the way to {node}"))?;
    Ok(socket.local_addr()?.ip())
}

async fn node_address(trial: &Trial) -> Result<IpAddr> {
    let nodes = Api::<Node>::all(trial.client().clone()).list(&ListParams::default()).await?;
    let addresses = nodes.items.into_iter().filter_map(|node| node.status?.addresses).flatten();
    let address = addresses.filter(|it| it.type_ == "InternalIP").map(|it| it.address).next();
    Ok(address.context("the node has no address")?.parse()?)
}

/// Serves `wanted` as the value of every metric at this address, and returns the port.
async fn serve(address: IpAddr, wanted: Arc<AtomicU32>) -> Result<u16> {
    let made = rcgen::generate_simple_self_signed(["metrics".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key))?;
    let tcp = TcpListener::bind((address, 0)).await?;
    let port = tcp.local_addr()?.port();
    let listener = Listener { tcp, tls: TlsAcceptor::from(Arc::new(config)) };
    let root = "/apis/external.metrics.k8s.io/v1beta1";
    let router = Router::new()
        .route(root, get(async || Json(kinds())))
        .route(&format!("{root}/namespaces/{{namespace}}/{{metric}}"), get(values))
        .with_state(wanted);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(port)
}

fn kinds() -> Value {
    let group = "external.metrics.k8s.io/v1beta1";
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [] })
}

async fn values(State(wanted): State<Arc<AtomicU32>>) -> Json<Value> {
    let value = wanted.load(Ordering::Relaxed).to_string();
    Json(json!({
        "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
        "items": [{
            "metricName": "wanted", "metricLabels": {}, "value": value,
            "timestamp": "2026-01-01T00:00:00Z",
        }],
    }))
}

/// Registers the API that this test serves at this address.
async fn register(trial: &Trial, address: IpAddr, port: u16) -> Result<()> {
    let created = PostParams::default();
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": "metrics" },
        "spec": { "ports": [{ "name": "https", "port": 443, "targetPort": port }] },
    }))?;
    trial.api::<Service>().create(&created, &service).await?;
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": { "name": "metrics", "labels": { "kubernetes.io/service-name": "metrics" } },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    }))?;
    trial.api::<EndpointSlice>().create(&created, &slice).await?;
    let api: APIService = serde_json::from_value(json!({
        "metadata": { "name": API },
        "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "name": "metrics", "namespace": trial.namespace(), "port": 443 },
        },
    }))?;
    Api::<APIService>::all(trial.client().clone()).create(&created, &api).await?;
    Ok(())
}

/// Waits until the API server reaches the API that this test serves.
async fn available(trial: &Trial) -> Result<()> {
    let apis = Api::<APIService>::all(trial.client().clone());
    wait::until_found("the API server to reach the test's metrics", REACH, async || {
        let conditions = apis.get(API).await?.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        Ok(conditions.any(|it| it.type_ == "Available" && it.status == "True").then_some(()))
    })
    .await
}

/// An autoscaler that gives the MiniCluster as many pods as the metric says.
async fn autoscaler(trial: &Trial, name: &str) -> Result<()> {
    let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "name": name,
            },
            "minReplicas": 1, "maxReplicas": 3,
            "metrics": [{ "type": "External", "external": {
                "metric": { "name": "wanted" },
                "target": { "type": "AverageValue", "averageValue": "1" },
            } }],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        },
    }))?;
    let api = trial.api::<HorizontalPodAutoscaler>();
    api.create(&PostParams::default(), &autoscaler).await?;
    Ok(())
}

async fn grows_and_shrinks(trial: &Trial, wanted: &AtomicU32) -> Result<()> {
    let spec = "{size: 1, maxSize: 3, interactive: true, flux: {drainSeconds: 300}, \
                containers: [{image: 'ubuntu:24.04'}]}";
    let name = apply(trial, "scaled", spec).await?;
    let lead = ready_lead(trial, &name).await?;
    wanted.store(3, Ordering::Relaxed);
    autoscaler(trial, &name).await?;
    await_up(trial, &name, "3", DEADLINE).await?;
    await_status(trial, &name, "of size 3", |it| it.size == 3 && it.ready_brokers == 3).await?;

    let task = "until test -e /tmp/go; do sleep 0.1; done";
    exec(trial, &lead, &name, &[FLUX, "submit", "-N3", "-n3", "sh", "-c", task])?;
    wanted.store(1, Ordering::Relaxed);
    await_status(trial, &name, "of size 1", |it| it.size == 1).await?;
    for index in 0..3 {
        let pod = trial.pod(&name, index).await?.context("a pod went before its job")?;
        exec(trial, &kube::ResourceExt::name_any(&pod), &name, &["touch", "/tmp/go"])?;
    }
    await_up(trial, &name, "1", DEADLINE).await?;
    let result = exec(trial, &lead, &name, &[FLUX, "jobs", "-a", "-no", "{status}"])?;
    ensure!(result.trim() == "COMPLETED", "the job is {result}");
    Ok(())
}

async fn with_metrics(trial: &Trial, own_cluster: bool) -> Result<()> {
    let wanted = Arc::new(AtomicU32::new(1));
    let address = address_towards(node_address(trial).await?)?;
    let port = serve(address, Arc::clone(&wanted)).await?;
    register(trial, address, port).await?;
    match available(trial).await {
        Err(error) if !own_cluster => {
            let why = format!("the cluster does not reach this machine at {address}: {error:#}");
            not_run::note("an autoscaler", &why, &Progress::new());
            Ok(())
        }
        reached => {
            reached?;
            grows_and_shrinks(trial, &wanted).await
        }
    }
}

#[test]
#[ignore = "needs a cluster"]
fn an_autoscaler_sets_the_size_and_jobs_survive_it() {
    trial("autoscaler", &[], async |trial| {
        let own_cluster = Environment::shared(&Progress::new())?.is_own();
        let outcome = with_metrics(trial, own_cluster).await;
        let apis = Api::<APIService>::all(trial.client().clone());
        let deleted = apis.delete(API, &DeleteParams::default()).await;
        outcome?;
        deleted.map(drop).context("taking the metrics away")
    });
}

#[test]
fn metrics_are_served_where_the_node_finds_them() {
    // Where the test runs on the node, as with clusters of the harness, the address is the node's own.
    let node = IpAddr::from(Ipv4Addr::LOCALHOST);
    assert_eq!(address_towards(node).unwrap(), node);
}
