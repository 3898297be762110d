//! Deletes the oldest finished MiniClusters of a namespace that has more of them than the operator keeps
//! (`--keep-finished`).

use super::apply::delete;
use super::error::Error;
use super::observe::cached_client::{CachedClient, Read, read};
use super::report::events::event;
use super::report::publish;
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use kube::runtime::events::EventType;
use kube::{Resource as _, ResourceExt as _};

/// Looks at the namespace of the MiniCluster of `client`, whose run has ended. A new operator knows those that it has
/// reconciled; what is beyond the newest of them is beyond the newest of all.
pub(super) async fn delete_surplus(client: &CachedClient<'_>) -> Result<(), Error> {
    let (context, namespace) = (client.context, &client.name.0);
    let Some(kept) = context.keep_finished else { return Ok(()) };
    for name in context.cache.surplus(namespace, kept) {
        // The cache has only the end, and another run may follow.
        let found = read(&context.client, namespace, &name).await?;
        context.cache.set_end(&(namespace.clone(), name.clone()), None);
        let Some(Read { mini_cluster, .. }) = found.filter(|it| is_finished(&it.mini_cluster))
        else {
            continue;
        };
        tracing::info!(namespace, name, kept, "the namespace has more finished MiniClusters");
        let (uid, version) = (mini_cluster.uid(), mini_cluster.resource_version());
        delete(&client.objects::<MiniCluster>(), &name, uid, version).await?;
        let note = format!(
            "deleted, as the operator keeps the newest finished MiniClusters of a namespace (--keep-finished {kept})"
        );
        // It outlives the MiniCluster, by an hour as a rule.
        let event = event(EventType::Normal, "Surplus", "Delete", note);
        publish(context, &mini_cluster.object_ref(&()), &event).await;
    }
    Ok(())
}

fn is_finished(mini_cluster: &MiniCluster) -> bool {
    let run_id = mini_cluster.status.as_ref().and_then(|status| status.run_id.as_ref());
    let asked = mini_cluster.spec.run_id.as_ref();
    let runs_again = asked.is_some() && asked != run_id;
    mini_cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over) && !runs_again
}
