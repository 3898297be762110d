//! The services pod's way through the cluster: made before the Job, deleted when it has finished.

use super::apply::{create, delete};
use super::error::Error;
use super::observe::ours;
use super::services_change::ServicesChange;
use crate::cluster::{Cluster, Identity};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// The services pod there is. One of somebody else counts only where one is `wanted`.
pub(super) async fn live(
    client: &Client,
    identity: &Identity,
    wanted: bool,
) -> Result<Option<Pod>, Error> {
    let name = identity.name.services_pod();
    match ours(&api(client, &identity.namespace), &name, &identity.owner).await {
        Err(Error::NameTaken { .. } | Error::Predecessor { .. }) if !wanted => Ok(None),
        result => result,
    }
}

/// Does what was decided about the pod; the answer is the pod there is then.
pub(super) async fn realise(
    client: &Client,
    cluster: &Cluster,
    live: Option<Pod>,
    change: &ServicesChange,
) -> Result<Option<Pod>, Error> {
    let api = api(client, &cluster.namespace);
    match (change, live) {
        (ServicesChange::Create(desired), _) => {
            create(&api, desired.as_ref(), &cluster.owner).await.map(Some)
        }
        (ServicesChange::Delete, Some(live)) => {
            tracing::info!("delete the services pod: it has failed and is made again");
            delete(&api, &live).await?;
            Ok(None)
        }
        (ServicesChange::Keep | ServicesChange::Refuse(_) | ServicesChange::Delete, live) => {
            Ok(live)
        }
    }
}

/// Deletes the pod, so that nothing of a finished MiniCluster is left running.
pub(super) async fn retire(
    client: &Client,
    identity: &Identity,
    live: Option<&Pod>,
) -> Result<(), Error> {
    let Some(pod) = live.filter(|pod| pod.metadata.deletion_timestamp.is_none()) else {
        return Ok(());
    };
    tracing::info!("delete the services pod: the MiniCluster has finished");
    delete(&api(client, &identity.namespace), pod).await
}

fn api(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}
