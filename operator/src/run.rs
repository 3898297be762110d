//! `flux-operator run`: the process around the controller.

use crate::admin::{self, AdminError, Readiness};
use crate::cli::{RunArguments, defaults};
use crate::controller::{self, Context, Images};
use crate::leader::{LeaderError, Leadership};
use crate::metrics::Metrics;
use kube::Client;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinError;

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no way to reach an API server.
    #[error("find a Kubernetes API server")]
    Connect {
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Signals cannot be waited for.
    #[error("wait for signals")]
    Signals {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The endpoints for probes and metrics failed.
    #[error("serve health and metrics")]
    Admin {
        /// Why.
        #[source]
        source: AdminError,
    },
    /// The endpoints for probes and metrics ended without an error of their own.
    #[error("serve health and metrics")]
    AdminTask {
        /// Why.
        #[source]
        source: JoinError,
    },
    /// There is no Lease to be had.
    #[error("become the acting operator")]
    Lead {
        /// Why.
        #[source]
        source: LeaderError,
    },
    /// Another operator acts now: this one must not, and starts over as a stand-by.
    #[error("the Lease was lost to another operator")]
    LeaseLost,
}

/// Runs until a signal asks to stop, or until something that it depends on fails.
pub async fn run(arguments: RunArguments) -> Result<(), RunError> {
    let RunArguments {
        agent_image,
        agent_pull_policy,
        view_image,
        arm_view_image,
        namespace,
        leader_elect,
        lease_name,
        lease_namespace,
        identity,
        metrics_bind,
        health_bind,
        log_format: _,
        log_level: _,
    } = arguments;
    let stop = stop_signal()?;
    let client = Client::try_default()
        .await
        .map_err(|source| RunError::Connect { source: Box::new(source) })?;
    let defaults = defaults(view_image, arm_view_image);
    tracing::info!(%agent_image, ?defaults, namespace, leader_elect, "start");
    let (readiness, metrics) = (Readiness::default(), Arc::new(Metrics::new()));
    let admin = admin::serve(health_bind, metrics_bind, readiness.clone(), Arc::clone(&metrics));
    let admin = tokio::spawn(admin);
    let context = Arc::new(Context::new(
        client.clone(),
        Some(identity.clone()),
        metrics,
        Images { agent: agent_image, agent_pull_policy },
        defaults,
    ));
    let lease_namespace = lease_namespace.unwrap_or_else(|| client.default_namespace().to_owned());
    let lease = leader_elect.then_some(Lease {
        client,
        namespace: lease_namespace,
        name: lease_name,
        identity,
    });
    tokio::select! {
        ended = act(context, namespace, lease, readiness, stop) => ended,
        served = admin => match served {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(RunError::Admin { source }),
            Err(source) => Err(RunError::AdminTask { source }),
        },
    }
}

/// Which Lease to hold, and as whom.
struct Lease {
    client: Client,
    namespace: String,
    name: String,
    identity: String,
}

/// Stands by until the Lease is held, if there is one to hold; then reconciles.
async fn act(
    context: Arc<Context>,
    namespace: Option<String>,
    lease: Option<Lease>,
    readiness: Readiness,
    stop: watch::Receiver<bool>,
) -> Result<(), RunError> {
    let synced = {
        let readiness = readiness.clone();
        move || {
            tracing::info!("all MiniClusters are known");
            readiness.set(true);
        }
    };
    let Some(Lease { client, namespace: lease_namespace, name, identity }) = lease else {
        controller::run(context, namespace.as_deref(), synced, stopped(stop)).await;
        return Ok(());
    };
    let mut leadership = Leadership::seek(client, &lease_namespace, &name, &identity)
        .await
        .map_err(|source| RunError::Lead { source })?;
    // A stand-by does all that is asked of it.
    readiness.set(true);
    tracing::info!(lease = name, "stand by");
    let gained = tokio::select! {
        gained = leadership.gained() => gained.map(|()| true),
        () = stopped(stop.clone()) => Ok(false),
    };
    if !gained.map_err(|source| RunError::Lead { source })? {
        leadership.release().await;
        return Ok(());
    }
    tracing::info!(lease = name, "act");
    let lost = leadership.lost();
    let told = stop.clone();
    let end = async move {
        tokio::select! {
            () = lost => {}
            () = stopped(told) => {}
        }
    };
    controller::run(context, namespace.as_deref(), synced, end).await;
    let asked = *stop.borrow();
    leadership.release().await;
    if asked { Ok(()) } else { Err(RunError::LeaseLost) }
}

/// A channel that turns true on SIGTERM or SIGINT.
fn stop_signal() -> Result<watch::Receiver<bool>, RunError> {
    let listen = |kind| signal(kind).map_err(|source| RunError::Signals { source });
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        // Nobody listens any more: then everything has stopped already.
        let _ = sender.send(true);
    });
    Ok(receiver)
}

/// Resolves when asked to stop.
async fn stopped(mut stop: watch::Receiver<bool>) {
    // A sender that is gone will never ask; wait for ever instead of stopping for no reason.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
