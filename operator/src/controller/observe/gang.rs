//! The PodGroups of a gang ([`flux_api::objects::gang`]): which kinds the API server has, and the one there is.

use super::cached_client::{CachedClient, Objects, or_note};
use crate::controller::error::{Error, NameConflict, Verb};
use flux_api::cluster::{Cluster, Identity};
use flux_api::crd::Gang;
use flux_api::objects::gang::{PLURAL, Scheduler};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;
use std::collections::HashSet;

/// Schedulers whose PodGroups the API server has, or of a Job that was made its own, each with the PodGroup there is.
pub(crate) type Observed = Vec<(Scheduler, Option<DynamicObject>)>;

/// Reads what there is, where a gang is asked for. PodGroups of somebody else go into `taken`.
pub(crate) async fn observe(
    client: &CachedClient<'_>,
    identity: &Identity,
    cluster: &Cluster,
    job: Option<&Job>,
    taken: &mut Vec<NameConflict>,
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    if cluster.gang == Gang::None {
        return Ok(observed);
    }
    let served = match job {
        Some(job) => Scheduler::noted_on(job).into_iter().collect(),
        None => served(client, Scheduler::all_of(cluster.gang)).await?,
    };
    for scheduler in served {
        let pod_groups = pod_groups(scheduler, client);
        let found = pod_groups.read_owned(identity.name.as_str(), &identity.owner).await?;
        observed.push((scheduler, or_note(found, taken)));
    }
    Ok(observed)
}

/// The PodGroups of `scheduler`.
pub(crate) fn pod_groups(
    scheduler: Scheduler,
    client: &CachedClient<'_>,
) -> Objects<DynamicObject> {
    client.dynamic(&scheduler.resource())
}

async fn served(client: &CachedClient<'_>, wanted: &[Scheduler]) -> Result<Vec<Scheduler>, Error> {
    let client = &client.context.client;
    let failed = |name: &str| Error::of(Verb::Read, "API group", name);
    let groups = client.list_api_groups().await.map_err(failed("scheduling"))?.groups;
    let versions: HashSet<_> =
        groups.into_iter().flat_map(|group| group.versions).map(|it| it.group_version).collect();
    let mut served = Vec::new();
    for scheduler in wanted {
        let version = scheduler.resource().api_version;
        if versions.contains(&version) {
            let resources = client.list_api_group_resources(&version).await;
            let resources = resources.map_err(failed(&version))?.resources;
            served.extend(resources.iter().any(|it| it.name == PLURAL).then_some(*scheduler));
        }
    }
    Ok(served)
}
