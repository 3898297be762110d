//! `flux-operator run`: the process around the controller.
//!
//! Two threads, each with a runtime: one for what must always be on time (the Lease, `/healthz`,
//! signals), and one that reconciles. However long a decision takes, the Lease is renewed and
//! `/healthz` says what is going on.

use crate::admin::{self, BEAT, Health};
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
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Longest silence of the API server on a connection in use: above that of a watch (`controller::WATCH`). A connection that is
/// given up may be followed by another one that is dead, so a change is seen after twice this time at the latest.
const SILENCE: Duration = Duration::from_secs(30);
/// Wait between two looks at a definition that is not this release's.
const DEFINITION_PAUSE: Duration = Duration::from_secs(15);
/// Longest time for reconciles to end: the kubelet kills after 30 s, and the Lease is given back before.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs until a signal asks to stop, or until something that it depends on fails.
pub fn run(arguments: RunArguments) -> Result<()> {
    let threads = "start the threads";
    let workers = Builder::new_current_thread().enable_all().build().context(threads)?;
    let control = Builder::new_current_thread().enable_all().build().context(threads)?;
    let handle = workers.handle().clone();
    // One thread is enough for a thousand MiniClusters, and each more keeps memory of its own that it has freed.
    // Nobody waits for its end: a reconcile that computes for ever does not keep the process.
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
    let defaults = Defaults {
        cluster_domain: arguments.cluster_domain.or_else(|| own_domain(&config)),
        ..Defaults::new(arguments.view_image, arguments.arm_view_image, arguments.install)
    };
    let context = Arc::new({
        // A client's connections are served by the runtime that it was made in.
        let _workers = workers.enter();
        Context::new(
            client(config.clone(), &metrics)?,
            Some(arguments.identity),
            Arc::clone(&metrics),
            Images { agent: arguments.agent_image, agent_pull_policy: arguments.agent_pull_policy },
            defaults,
        )
    });
    let health = Arc::new(Health::new(Instant::now()));
    workers.spawn(beat(Arc::clone(&health)));
    let asked = client(config, &metrics)?;
    tokio::spawn(check_definition(asked, Arc::clone(&health)));
    let served = admin::serve(
        arguments.health_bind,
        arguments.metrics_bind,
        Arc::clone(&health),
        Arc::clone(&metrics),
    );
    let operator = Operator {
        context,
        scope: Scope { namespace: arguments.namespace, concurrency: arguments.concurrency },
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

/// The domain of the cluster's Services, as the search list of this pod has it.
fn own_domain(config: &Config) -> Option<String> {
    let text = std::fs::read_to_string("/etc/resolv.conf").ok()?;
    cluster_domain(&text, &config.default_namespace)
}

fn client(mut config: Config, metrics: &Metrics) -> Result<Client> {
    config.read_timeout = Some(SILENCE);
    // From the request on, not from the answer before it.
    config.reset_reader_on_write = true;
    let builder = ClientBuilder::try_from(config);
    let builder = builder.context("make a client of the Kubernetes API server")?;
    Ok(builder.with_layer(metrics.requests()).build())
}

/// A candidate for the Lease, if there is one to hold. It has a client of its own, on this thread.
fn candidate(
    arguments: &RunArguments,
    config: &Config,
    metrics: &Metrics,
) -> Result<Option<Candidate>> {
    if !arguments.leader_elect {
        return Ok(None);
    }
    let namespace = arguments.lease_namespace.as_ref().unwrap_or(&config.default_namespace);
    let identity = unique(&arguments.identity)?;
    let client = client(config.clone(), metrics)?;
    Ok(Some(Candidate::new(client, namespace, &arguments.lease_name, identity)))
}

/// `name` with a random end: two processes, also of one pod one after the other, never hold the Lease as one.
fn unique(name: &str) -> Result<String> {
    let random = getrandom::u64().context("draw random numbers for a name in the Lease")?;
    Ok(format!("{name}_{random:016x}"))
}

async fn beat(health: Arc<Health>) {
    loop {
        health.beat(Instant::now());
        sleep(BEAT).await;
    }
}

/// Asks until the definition of MiniCluster is that of this release. An operator is not ready before: so an older one,
/// which a Deployment is to replace, goes on.
async fn check_definition(client: Client, health: Arc<Health>) {
    let mut warned = None;
    loop {
        match served_definition(&client).await.map(|document| lacking_fields(&document)) {
            Ok(lacking) if lacking.is_empty() => break,
            Ok(lacking) => {
                let lacks = Some(message(&lacking));
                health.set_lacks(lacks.clone());
                if warned != lacks {
                    tracing::error!("{}", lacks.as_deref().unwrap_or_default());
                    warned = lacks;
                }
            }
            Err(kube::Error::Api(status)) if status.code == 403 => break,
            // Another request says why the API server does not answer.
            Err(error) => tracing::debug!(%error, "read the definition of MiniCluster"),
        }
        sleep(DEFINITION_PAUSE).await;
    }
    health.set_lacks(None);
    if warned.is_some() {
        tracing::info!("the definition of MiniCluster is this release's now");
    }
}

/// What the API server publishes about MiniClusters.
async fn served_definition(client: &Client) -> kube::Result<Value> {
    let request = http::Request::get(DOCUMENT_PATH).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

struct Operator {
    context: Arc<Context>,
    scope: Scope,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    workers: Handle,
    stop: CancellationToken,
}

impl Operator {
    /// Stands by until the Lease is held, if there is one to hold; then reconciles.
    async fn act(self, candidate: Option<Candidate>) -> Result<()> {
        let Some(mut candidate) = candidate else {
            self.metrics.set_leader(true);
            return self.reconcile().await;
        };
        tokio::select! {
            // A stand-by that can read the Lease does all that is asked of it.
            () = candidate.gain(|| self.health.set_ready()) => {}
            () = self.stop.cancelled() => {
                candidate.release().await;
                return Ok(());
            }
        }
        tracing::info!("the Lease is held: act");
        self.metrics.set_leader(true);
        let metrics = Arc::clone(&self.metrics);
        let ended = while_held(&mut candidate, self.reconcile()).await;
        metrics.set_leader(false);
        // When it is lost, the operator starts over as a stand-by.
        let ended = ended.context("stop acting")?;
        candidate.release().await;
        ended
    }

    /// Reconciles until asked to stop. When this is dropped, the reconciles under way are too.
    async fn reconcile(self) -> Result<()> {
        let health = self.health;
        let synced = move || {
            tracing::info!("all MiniClusters are known");
            health.set_ready();
        };
        let stop = self.stop.clone();
        let work = controller::run(self.context, self.scope, synced, self.stop.cancelled_owned());
        let mut tasks = JoinSet::new();
        tasks.spawn_on(work, &self.workers);
        let impatient = async {
            stop.cancelled().await;
            sleep(PATIENCE).await;
        };
        tokio::select! {
            ended = tasks.join_next() => ended.unwrap_or(Ok(())).context("run the controller"),
            () = impatient => {
                tracing::warn!(?PATIENCE, "reconciles are still under way: stop without them");
                Ok(())
            }
        }
    }
}

/// Does `work` for as long as `candidate` holds the Lease, and drops it when that is lost.
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
        tracing::info!("asked to stop");
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
        let answer = tokio::time::timeout(2 * SILENCE, client.apiserver_version()).await;
        assert!(answer.expect("an end").is_err());
        assert!(begin.elapsed() >= SILENCE, "{:?}", begin.elapsed());
        assert!(SILENCE > Duration::from_secs(WATCH.into()), "a watch may be silent");
    }

    #[test]
    fn two_processes_of_one_name_have_different_identities() {
        let (one, other) = (unique("flux-operator").unwrap(), unique("flux-operator").unwrap());
        assert!(one.starts_with("flux-operator_") && one != other, "{one} {other}");
    }
}
