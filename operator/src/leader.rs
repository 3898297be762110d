//! One operator acts at a time: who holds the Lease.

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Seconds after which the Lease of an operator that is gone may be taken.
const DURATION_SECONDS: u64 = 15;
/// Seconds before that in which the holder renews it.
const GRACE_SECONDS: u64 = 5;

/// Why there is no Lease to be had.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The Lease cannot be read or created.
    #[error("open the Lease {namespace}/{name}")]
    Open {
        /// Namespace of the Lease.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<LeaseManagerError>,
    },
    /// Nobody tries to get or to keep the Lease any more.
    #[error("the task that renews the Lease has ended")]
    Ended,
}

/// A hold, or the wait for one.
pub struct Leadership {
    held: watch::Receiver<bool>,
    task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

impl Leadership {
    /// Begins to try for the Lease `name` in `namespace` as `identity`.
    pub async fn seek(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
    ) -> Result<Self, LeaderError> {
        let manager = LeaseManagerBuilder::new(client, name)
            .with_namespace(namespace)
            .with_identity(identity)
            .with_field_manager(identity)
            .with_duration(DURATION_SECONDS)
            .with_grace(GRACE_SECONDS)
            .build()
            .await
            .map_err(|source| LeaderError::Open {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                source: Box::new(source),
            })?;
        let (held, task) = manager.watch().await;
        Ok(Self { held, task })
    }

    /// Resolves when the Lease is ours.
    pub async fn gained(&mut self) -> Result<(), LeaderError> {
        self.held.wait_for(|held| *held).await.map(|_| ()).map_err(|_| LeaderError::Ended)
    }

    /// Resolves when the Lease is no longer ours.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        let mut held = self.held.clone();
        async move {
            // An ended task does not renew: that is a loss too.
            let _ = held.wait_for(|held| !*held).await;
        }
    }

    /// Gives the Lease back, so that another operator need not wait for its end.
    pub async fn release(self) {
        drop(self.held);
        match self.task.await {
            Ok(Ok(_)) => tracing::info!("released the Lease"),
            Ok(Err(error)) => tracing::warn!(%error, "release the Lease"),
            Err(error) => tracing::warn!(%error, "wait for the task that renews the Lease"),
        }
    }
}
