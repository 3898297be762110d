//! `flux-operator run`: the process around the controller.
//!
//! Two threads, each with a runtime: one for the Lease, `/healthz` and signals, which must always be on time, and one
//! for the reconciles. A reconcile that computes for long delays neither the renewal of the Lease nor `/healthz`.

use crate::admin::{Endpoints, HEARTBEAT_INTERVAL, Health};
use crate::cli::RunArguments;
use crate::controller::{self, Context, Scope};
use crate::leader::Candidate;
use crate::metrics::Metrics;
use anyhow::{Context as _, Result};
use flux_api::cluster::validate::Defaults;
use flux_api::crd::served::{DOCUMENT_PATH, lacking_fields, message};
use flux_api::objects::Images;
use flux_contract::cluster_domain;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Read timeout of connections to the API server: above the time limit of a watch (`controller::WATCH`). The
/// connection after a dead one may be dead too, so a change is noticed after twice this time at the latest.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Wait before the served CustomResourceDefinition is checked again.
const DEFINITION_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Time that reconciles get to end: the kubelet kills the operator after 30 s, and the Lease is released before.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(20);

/// Runs until SIGTERM or SIGINT arrives, or until the Lease or a listener fails.
pub fn run(arguments: RunArguments) -> Result<()> {
    let threads = "start the threads";
    let workers = Builder::new_current_thread().enable_all().build().context(threads)?;
    let control = Builder::new_current_thread().enable_all().build().context(threads)?;
    let handle = workers.handle().clone();
    // One thread is enough for a thousand MiniClusters, and each further thread keeps its own pool of freed memory.
    // The process does not join this thread, so a reconcile that never ends cannot keep the process alive.
    let reconciles = std::thread::Builder::new().name("reconcile".to_owned());
    reconciles.spawn(move || workers.block_on(pending::<()>())).context(threads)?;
    control.block_on(serve(arguments, &handle))
}

async fn serve(arguments: RunArguments, workers: &Handle) -> Result<()> {
    let stop = stop_signal()?;
    let config = Config::infer().await.context("find a Kubernetes API server")?;
    tracing::info!(?arguments, "start");
    let metrics = Arc::new(Metrics::default());
    let candidate = candidate(&arguments, &config, &metrics)?;
    // This thread's client, of what is no reconcile.
    let own_client = client(config.clone(), &metrics)?;
    let endpoints = Endpoints::new(&arguments, own_client.clone())?;
    let defaults = Defaults {
        cluster_domain: arguments.cluster_domain.or_else(|| own_domain(&config)),
        ..Defaults::new(arguments.view_image, arguments.arm_view_image, arguments.install)
    };
    let images =
        Images { agent: arguments.agent_image, agent_pull_policy: arguments.agent_pull_policy };
    let client = {
        // A client's connections run in the runtime in which the client was created.
        let _workers = workers.enter();
        client(config, &metrics)?
    };
    let controller = |namespace| {
        let identity = Some(arguments.identity.clone());
        let (metrics, images) = (Arc::clone(&metrics), images.clone());
        let mut context = Context::new(client.clone(), identity, metrics, images, defaults.clone());
        context.keep_finished = arguments.keep_finished.and_then(|number| number.try_into().ok());
        (Arc::new(context), Scope { namespace, concurrency: arguments.concurrency })
    };
    let mut namespaces: BTreeSet<_> = arguments.namespace.into_iter().map(Some).collect();
    if namespaces.is_empty() {
        namespaces.insert(None);
    }
    let health = Arc::new(Health::new(Instant::now()));
    workers.spawn(heartbeat(Arc::clone(&health)));
    tokio::spawn(check_definition(own_client, Arc::clone(&health)));
    let served = endpoints.serve(Arc::clone(&health), Arc::clone(&metrics));
    let operator = Operator {
        controllers: namespaces.into_iter().map(controller).collect(),
        health,
        metrics,
        workers: workers.clone(),
        stop,
    };
    tokio::select! {
        ended = operator.act(candidate) => ended,
        served = served => served.context("serve health and metrics"),
    }
}

/// The domain of the cluster's Services from the search list of this pod's resolv.conf.
fn own_domain(config: &Config) -> Option<String> {
    let text = std::fs::read_to_string("/etc/resolv.conf").ok()?;
    cluster_domain(&text, &config.default_namespace)
}

fn client(mut config: Config, metrics: &Metrics) -> Result<Client> {
    config.read_timeout = Some(READ_TIMEOUT);
    // The timeout counts from the request, not from the response before it.
    config.reset_reader_on_write = true;
    let builder = ClientBuilder::try_from(config);
    let builder = builder.context("make a client of the Kubernetes API server")?;
    Ok(builder.with_layer(metrics.requests()).build())
}

/// The candidate for the Lease if leader election is on. It has its own client, on this thread.
fn candidate(
    arguments: &RunArguments,
    config: &Config,
    metrics: &Metrics,
) -> Result<Option<Candidate>> {
    if !arguments.leader_elect {
        return Ok(None);
    }
    let namespace = arguments.lease_namespace.as_ref().unwrap_or(&config.default_namespace);
    let identity = with_random_suffix(&arguments.identity)?;
    let client = client(config.clone(), metrics)?;
    Ok(Some(Candidate::new(client, namespace, &arguments.lease_name, identity)))
}

/// `name` with a random suffix, so that two processes, even of one pod, never hold the Lease under one identity.
fn with_random_suffix(name: &str) -> Result<String> {
    let random = getrandom::u64().context("draw random numbers for a name in the Lease")?;
    Ok(format!("{name}_{random:016x}"))
}

async fn heartbeat(health: Arc<Health>) {
    loop {
        health.heartbeat(Instant::now());
        sleep(HEARTBEAT_INTERVAL).await;
    }
}

/// Checks the served CustomResourceDefinition until it has all fields of this release. The operator is not ready
/// before, so that a rolling update of the Deployment keeps the older operator.
async fn check_definition(client: Client, health: Arc<Health>) {
    let mut warned = None;
    loop {
        match served_definition(&client).await.map(|document| lacking_fields(&document)) {
            Ok(lacking) if lacking.is_empty() => break,
            Ok(lacking) => {
                let message_of_fields = Some(message(&lacking));
                health.set_missing_fields(message_of_fields.clone());
                if warned != message_of_fields {
                    tracing::error!("{}", message_of_fields.as_deref().unwrap_or_default());
                    warned = message_of_fields;
                }
            }
            Err(kube::Error::Api(status)) if status.code == 403 => break,
            // The watches log why the API server does not respond.
            Err(error) => tracing::debug!(%error, "read the served definition of MiniCluster"),
        }
        sleep(DEFINITION_CHECK_INTERVAL).await;
    }
    health.set_missing_fields(None);
    if warned.is_some() {
        tracing::info!("the definition of MiniCluster has all fields of this release");
    }
}

/// The OpenAPI document of the API server for MiniClusters.
async fn served_definition(client: &Client) -> kube::Result<Value> {
    let request = http::Request::get(DOCUMENT_PATH).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

struct Operator {
    /// One for each namespace that the operator serves, or one for all.
    controllers: Vec<(Arc<Context>, Scope)>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    workers: Handle,
    stop: CancellationToken,
}

impl Operator {
    /// Waits for the Lease if leader election is on, then reconciles.
    async fn act(self, candidate: Option<Candidate>) -> Result<()> {
        let Some(mut candidate) = candidate else {
            self.metrics.set_leader(true);
            return self.reconcile().await;
        };
        tokio::select! {
            // A stand-by operator is ready as soon as it can read the Lease.
            () = candidate.gain(|| self.health.set_ready()) => {}
            () = self.stop.cancelled() => {
                candidate.release().await;
                return Ok(());
            }
        }
        tracing::info!("this operator holds the Lease and begins to reconcile");
        self.metrics.set_leader(true);
        let metrics = Arc::clone(&self.metrics);
        let ended = while_held(&mut candidate, self.reconcile()).await;
        metrics.set_leader(false);
        // The process ends when the Lease is lost; the kubelet starts it again as a stand-by.
        let ended = ended.context("stop acting")?;
        candidate.release().await;
        ended
    }

    /// Reconciles until a stop signal arrives. Dropping this future cancels the running reconciles.
    async fn reconcile(self) -> Result<()> {
        let health = self.health;
        let synced = when_each_has_called(self.controllers.len(), move || {
            tracing::info!("all MiniClusters have been listed");
            health.set_ready();
        });
        let stop = self.stop;
        let mut tasks = JoinSet::new();
        for ((context, scope), synced) in self.controllers.into_iter().zip(synced) {
            let work = controller::run(context, scope, synced, stop.clone().cancelled_owned());
            tasks.spawn_on(work, &self.workers);
        }
        let all_ended = async {
            while let Some(ended) = tasks.join_next().await {
                ended.context("run the controller")?;
                if !stop.is_cancelled() {
                    break;
                }
            }
            Ok(())
        };
        let grace_over = async {
            stop.cancelled().await;
            sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            ended = all_ended => ended,
            () = grace_over => {
                tracing::warn!(?SHUTDOWN_GRACE, "reconciles are still running; the operator stops without waiting for them");
                Ok(())
            }
        }
    }
}

/// So many functions; when each has been called, and again whenever one is called after that, they call `then`.
fn when_each_has_called(
    count: usize,
    then: impl Fn() + Send + Sync + 'static,
) -> impl Iterator<Item = impl Fn() + Send + 'static> {
    let (missing, then) = (Arc::new(AtomicUsize::new(count)), Arc::new(then));
    (0..count).map(move |_| {
        let (missing, then, is_first) =
            (Arc::clone(&missing), Arc::clone(&then), AtomicBool::new(true));
        move || {
            if is_first.swap(false, Ordering::AcqRel) {
                missing.fetch_sub(1, Ordering::AcqRel);
            }
            if missing.load(Ordering::Acquire) == 0 {
                then();
            }
        }
    })
}

/// Runs `work` while `candidate` holds the Lease, and drops it when the Lease is lost.
pub async fn while_held<T>(candidate: &mut Candidate, work: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        lost = candidate.keep() => Err(lost),
        ended = work => Ok(ended),
    }
}

fn stop_signal() -> Result<CancellationToken> {
    let listen = |kind| signal(kind).context("wait for signals");
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("received a stop signal");
        stop.cancel();
    });
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::WATCH;
    use tokio::net::TcpListener;

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_request_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = client(Config::new(url.parse().unwrap()), &Metrics::default()).unwrap();
        let begin = tokio::time::Instant::now();
        let response = tokio::time::timeout(2 * READ_TIMEOUT, client.apiserver_version()).await;
        assert!(response.expect("an end").is_err());
        assert!(begin.elapsed() >= READ_TIMEOUT, "{:?}", begin.elapsed());
        assert!(READ_TIMEOUT > Duration::from_secs(WATCH.into()), "a watch may be silent");
    }

    #[test]
    fn the_operator_is_ready_when_each_controller_has_its_list() {
        let (counted, seen) =
            (Arc::new(AtomicUsize::new(0)), |it: &AtomicUsize| it.load(Ordering::Relaxed));
        let count = Arc::clone(&counted);
        let all = when_each_has_called(2, move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let [one, other] = all.collect::<Vec<_>>().try_into().ok().unwrap();
        one();
        one();
        assert_eq!(seen(&counted), 0);
        other();
        one();
        assert_eq!(seen(&counted), 2);
    }

    #[test]
    fn two_processes_of_one_name_have_different_identities() {
        let [one, other] = ["flux-operator"; 2].map(|name| with_random_suffix(name).unwrap());
        assert!(one.starts_with("flux-operator_") && one != other, "{one} {other}");
    }
}
