//! Reads the PodGroups of a gang ([`flux_api::objects::gang`]): the kinds that are served, and the existing one.

use super::cached_client::{CachedClient, Objects, split_conflict};
use crate::controller::error::{Error, NameConflict, Verb};
use flux_api::cluster::{Cluster, Identity};
use flux_api::crd::Gang;
use flux_api::objects::gang::{GangScheduler, PLURAL};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;
use std::collections::HashSet;

/// The schedulers whose PodGroups are served, or the one noted on the Job, each with the existing PodGroup.
pub(crate) type ObservedPodGroups = Vec<(GangScheduler, Option<DynamicObject>)>;

/// Reads the PodGroups if `cluster` asks for a gang. Adds to `conflicts` PodGroups of others that have the name.
pub(crate) async fn observe(
    client: &CachedClient<'_>,
    identity: &Identity,
    cluster: &Cluster,
    job: Option<&Job>,
    conflicts: &mut Vec<NameConflict>,
) -> Result<ObservedPodGroups, Error> {
    let mut observed = ObservedPodGroups::default();
    if cluster.gang == Gang::None {
        return Ok(observed);
    }
    let served = match job {
        Some(job) => GangScheduler::noted_on(job).into_iter().collect(),
        None => served(client, GangScheduler::all_of(cluster.gang)).await?,
    };
    for scheduler in served {
        let pod_groups = pod_groups(scheduler, client);
        let found = pod_groups.read_owned(identity.name.as_str(), &identity.owner).await?;
        observed.push((scheduler, split_conflict(found, conflicts)));
    }
    Ok(observed)
}

pub(crate) fn pod_groups(
    scheduler: GangScheduler,
    client: &CachedClient<'_>,
) -> Objects<DynamicObject> {
    client.dynamic(&scheduler.resource())
}

async fn served(
    client: &CachedClient<'_>,
    wanted: &[GangScheduler],
) -> Result<Vec<GangScheduler>, Error> {
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
