//! What there is in the cluster: all that is read, in one go.

mod pods;

pub(super) use pods::{Pods, broker_is_ready, lacks_brokers, lacks_pods};

use super::build::{Services, services};
use super::error::{Error, Taken};
use crate::cluster::{Cluster, Identity};
use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What there is of a MiniCluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// The Job.
    pub(super) job: Option<Job>,
    /// Holds what the running instance was started with.
    pub(super) config_map: Option<ConfigMap>,
    /// The pod of `spec.services`.
    pub(super) companion: Option<Pod>,
    /// The Services, by name.
    pub(super) services: BTreeMap<String, Service>,
    /// What the Job's pods say of themselves.
    pub(super) pods: Pods,
    /// Objects of somebody else in the place of the Job, the `ConfigMap` or the companion.
    pub(super) taken: Vec<Taken>,
    /// Objects of somebody else in the place of a Service that there must be.
    pub(super) services_taken: Vec<Taken>,
    /// Short names of sidecars' Services that somebody else has.
    pub(super) names_taken: Vec<String>,
}

/// What has a name that is ours to give.
#[derive(Debug)]
pub(super) enum Owned<K> {
    /// Nothing.
    Absent,
    /// An object of this MiniCluster.
    Ours(K),
    /// An object of somebody else.
    Taken(Taken),
}

impl<K> Owned<K> {
    /// The object if it is ours; one of somebody else goes into `all_taken`.
    fn or_note(self, all_taken: &mut Vec<Taken>) -> Option<K> {
        match self {
            Self::Absent => None,
            Self::Ours(object) => Some(object),
            Self::Taken(taken) => {
                all_taken.push(taken);
                None
            }
        }
    }
}

/// Reads everything. The names of the Services are in the specification: none is read for one that
/// was refused, of which `cluster` is absent.
pub(super) async fn observe(
    client: &Client,
    identity: &Identity,
    cluster: Option<&Cluster>,
    now: &Time,
) -> Result<Live, Error> {
    let Identity { name, namespace, owner } = identity;
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    let (config_name, companion_name) = (name.agent_config_map(), name.companion_pod());
    let services = cluster.map(services);
    let names = services.iter().flat_map(all).map(|service| service.name_any());
    let names: Vec<String> = names.collect();
    let ((job, pods), config_map, companion, found) = futures::try_join!(
        job_and_pods(client, identity, now),
        get_owned(&config_maps, &config_name, owner),
        get_owned(&pods, &companion_name, owner),
        try_join_all(names.iter().map(|name| get_owned(&api, name, owner))),
    )?;
    let mut live = Live { pods, ..Live::default() };
    live.job = job.or_note(&mut live.taken);
    live.config_map = config_map.or_note(&mut live.taken);
    // A pod of somebody else with the companion's name is in nobody's way unless one is asked for.
    let asked_for = cluster.is_some_and(|cluster| cluster.companion.is_some());
    let mut unasked = Vec::new();
    let taken = if asked_for { &mut live.taken } else { &mut unasked };
    live.companion = companion.or_note(taken);
    let needed = services.as_ref().map_or(0, |it| all(it).count() - it.aliases.len());
    let mut aliases_taken = Vec::new();
    for (index, service) in found.into_iter().enumerate() {
        let taken = if index < needed { &mut live.services_taken } else { &mut aliases_taken };
        let service = service.or_note(taken);
        live.services.extend(service.map(|service| (service.name_any(), service)));
    }
    live.names_taken = aliases_taken.into_iter().map(|taken| taken.name).collect();
    Ok(live)
}

/// All Services, the aliases last.
fn all(services: &Services) -> impl Iterator<Item = &Service> {
    let Services { headless, lead, sidecars, aliases } = services;
    [headless, lead].into_iter().chain(sidecars).chain(aliases)
}

/// The Job, and of its pods what its state makes worth asking for.
async fn job_and_pods(
    client: &Client,
    identity: &Identity,
    now: &Time,
) -> Result<(Owned<Job>, Pods), Error> {
    let api: Api<Job> = Api::namespaced(client.clone(), &identity.namespace);
    let job = get_owned(&api, identity.name.as_str(), &identity.owner).await?;
    let pods = match &job {
        Owned::Ours(job) => pods::pods(client, identity, job, now).await?,
        Owned::Absent | Owned::Taken(_) => Pods::default(),
    };
    Ok((job, pods))
}

/// Reads the object called `name` and says whether it is `owner`'s.
pub(super) async fn get_owned<K>(
    api: &Api<K>,
    name: &str,
    owner: &OwnerReference,
) -> Result<Owned<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::kind(&()).into_owned();
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        kind: kind.clone(),
        name: name.to_owned(),
        source: Box::new(source),
    })?;
    let Some(object) = found else { return Ok(Owned::Absent) };
    let owners = object.owner_references();
    if owners.iter().any(|other| other.uid == owner.uid) {
        return Ok(Owned::Ours(object));
    }
    let namesake = |other: &OwnerReference| other.kind == owner.kind && other.name == owner.name;
    let by_predecessor = owners.iter().any(namesake);
    Ok(Owned::Taken(Taken { kind, name: name.to_owned(), by_predecessor }))
}
