//! Reads the live objects of a MiniCluster.

mod agent_port;
pub(super) mod cached_client;
#[cfg(test)]
mod cases;
pub(super) mod demand;
pub(super) mod foreign;
pub(super) mod gang;
pub(super) mod image_volumes;
mod kept;
pub(super) mod lifecycle;
pub(super) mod mini_cluster_cache;
pub(super) mod next_run;
mod pending;
mod pending_check;
pub(super) mod pod_view;
mod pods;
pub(super) mod rate_limit;
pub(super) mod stores;
pub(super) mod waiting;

pub(super) use pods::Pods;

use super::error::{Error, NameConflict, Verb};
use super::job_ext::is_finished;
use super::run_record::RunRecord;
use cached_client::{CachedClient, Owned, is_owned, split_conflict};
use flux_api::cluster::{Cluster, Identity};
use flux_api::crd::MiniClusterStatus;
use flux_api::objects::{AGENT_CONFIG_KEY, services};
use flux_contract::{AgentConfig, labels};
use foreign::{Foreign, foreign};
use futures::future::try_join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::ResourceExt;
use kube::api::{ListParams, ObjectList};
use kube::runtime::reflector::Store;
use lifecycle::Lifecycle;
use std::collections::BTreeMap;
use stores::Stores;

/// The live objects of a MiniCluster, and the lifecycle of its run.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub(super) job: Option<Job>,
    /// The Job of a run that has ended, which goes because another run is to follow.
    pub(super) cleared: Option<Job>,
    pub(super) config_map: Option<ConfigMap>,
    /// The agents' configuration, if this operator can read it.
    pub(super) config: Option<AgentConfig>,
    pub(super) lifecycle: Lifecycle,
    /// Another actor that has started the run, which has not ended.
    pub(super) foreign: Option<Foreign>,
    pub(super) services_pod: Option<Pod>,
    pub(super) services: BTreeMap<String, Service>,
    pub(super) pods: Pods,
    pub(super) gang: gang::ObservedPodGroups,
    /// Objects of others that have the name of the Job, the `ConfigMap`, the pod of `spec.services` or the PodGroup.
    pub(super) conflicts: Vec<NameConflict>,
    /// Objects of others that have the name of a Service that the run needs.
    pub(super) service_conflicts: Vec<NameConflict>,
    /// Names of aliases that objects of others have.
    pub(super) alias_conflicts: Vec<String>,
    /// The API server's messages about aliases that it refuses.
    pub(super) refused_aliases: Vec<String>,
}

/// What the writes of a reconcile have changed.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) job: Option<Job>,
    pub(super) config_map: Option<ConfigMap>,
    pub(super) services_pod: Option<Pod>,
    /// Names of aliases that turned out to belong to others.
    pub(super) alias_conflicts: Vec<String>,
    pub(super) refused_aliases: Vec<String>,
}

impl Observed {
    /// These objects with the lifecycle that follows from them. `cluster` is the specification, if it is valid.
    pub(super) fn classified(
        mut self,
        cluster: Option<&Cluster>,
        (generation, status): (i64, Option<&MiniClusterStatus>),
        agent_image: &str,
        now: &Time,
    ) -> Self {
        let config = agent_config(self.config_map.as_ref());
        let record =
            self.config_map.as_ref().and_then(RunRecord::on).filter(|run| match &self.job {
                Some(job) => run.has_end_of(job),
                // The Job lost its owner and still runs, or another object has its name.
                None if run.end.is_none() && self.conflicts.iter().any(NameConflict::is_job) => {
                    false
                }
                None => cluster.is_none_or(|it| run.is_of(generation, it)),
            });
        let interactive = config.as_ref().is_some_and(|config| config.workload.is_interactive());
        let lifecycle = Lifecycle::of(self.job.as_ref(), record, &self.pods, interactive, now);
        if let (Some(cluster), Some(job)) = (cluster, &self.job)
            && next_run::clears(cluster, job, &lifecycle, status)
        {
            return Self { cleared: self.job.take(), pods: Pods::default(), config, ..self };
        }
        let job = self.job.as_ref().filter(|_| !lifecycle.is_over());
        let foreign = job
            .and_then(|it| foreign(it, self.config_map.is_some(), config.is_some(), agent_image));
        Self { config, lifecycle, foreign, ..self }
    }

    /// These objects after writes: status and next reconcile follow from them.
    pub(super) fn after(self, applied: Applied, now: &Time) -> Self {
        if self.cleared.is_some() {
            return self;
        }
        let config = self.config.as_ref();
        let interactive = config.is_some_and(|config| config.workload.is_interactive());
        let lifecycle = match &applied.job {
            Some(job) => {
                let record = self.lifecycle.record().cloned();
                Lifecycle::of(Some(job), record, &self.pods, interactive, now)
            }
            None => self.lifecycle,
        };
        Self {
            lifecycle,
            job: applied.job.or(self.job),
            config_map: applied.config_map.or(self.config_map),
            services_pod: applied.services_pod.or(self.services_pod),
            alias_conflicts: [self.alias_conflicts, applied.alias_conflicts].concat(),
            refused_aliases: applied.refused_aliases,
            ..self
        }
    }
}

fn agent_config(config_map: Option<&ConfigMap>) -> Option<AgentConfig> {
    AgentConfig::from_toml(config_map?.data.as_ref()?.get(AGENT_CONFIG_KEY)?).ok()
}

/// Reads all objects. The specification has the names of the Services, so Services are not read for a running
/// MiniCluster whose specification is invalid, where `cluster` is absent, nor for a run whose end is recorded. Pods are
/// not read where the end is in the `status`, too, and the Job has finished.
pub(super) async fn observe(
    client: &CachedClient<'_>,
    identity: &Identity,
    cluster: Option<&Cluster>,
    (generation, status): (i64, Option<&MiniClusterStatus>),
    now: &Time,
) -> Result<Observed, Error> {
    let is_reported = status.is_some_and(MiniClusterStatus::is_over);
    let Identity { name, owner, .. } = identity;
    let (config_name, services_pod_name) = (name.agent_config_map(), name.services_pod());
    let asked_for = cluster.is_some_and(|cluster| cluster.services_pod.is_some());
    let job = client.get_owned(name.as_str(), owner, |stores| &stores.jobs).await?;
    let config_map = async {
        // Without a Job, `decide` may create one: the record of an earlier run must be read live, after the Job.
        if matches!(job, Ok(None)) {
            client.objects().read_owned(&config_name, owner).await
        } else {
            client.get_owned(&config_name, owner, |stores| &stores.config_maps).await
        }
    };
    let services_pod = client.services_pod(&services_pod_name, owner, asked_for);
    let (config_map, services_pod) = futures::try_join!(config_map, services_pod)?;
    let pods = match &job {
        Ok(Some(job)) if !(is_reported && is_settled(job, &config_map)) => {
            let joins = cluster.is_some_and(Cluster::joins_another_lead);
            Box::pin(pods::pods(client, identity, job, joins, now)).await?
        }
        Ok(_) | Err(_) => Pods::default(),
    };
    let mut conflicts = Vec::new();
    let job = split_conflict(job, &mut conflicts);
    let config_map = split_conflict(config_map, &mut conflicts);
    let mut ignored = Vec::new();
    let of_pod = if asked_for { &mut conflicts } else { &mut ignored };
    let services_pod = split_conflict(services_pod, of_pod);
    let live = Observed { job, config_map, services_pod, pods, conflicts, ..Observed::default() };
    let mut live =
        live.classified(cluster, (generation, status), &client.context.images.agent, now);
    if live.cleared.is_some() {
        return Ok(live);
    }
    let is_over = if live.job.is_some() {
        // The end is recorded last, so nothing is left to do.
        if live.lifecycle.is_recorded() {
            return Ok(live);
        }
        live.lifecycle.is_over()
    } else {
        cluster.is_none() && live.lifecycle.is_over() && !live.lifecycle.is_recorded()
    };
    if is_over {
        live.services = all_services(client, identity).await?;
    } else if let Some(cluster) = cluster {
        let mut named = cluster.clone();
        if let (Some(job), Some(running)) = (&live.job, &live.config) {
            named.keep_services(job, running);
        }
        add_services(client, owner, &named, &mut live).await?;
        live.gang =
            gang::observe(client, identity, cluster, live.job.as_ref(), &mut live.conflicts)
                .await?;
    }
    Ok(live)
}

/// True when `job` has finished and its end is recorded.
fn is_settled(job: &Job, config_map: &Owned<ConfigMap>) -> bool {
    let record = config_map.as_ref().ok().and_then(Option::as_ref).and_then(RunRecord::on);
    is_finished(job) && record.is_some_and(|run| run.has_end_of(job))
}

/// All Services of a finished run, even those that the present specification does not name, so that none is left.
async fn all_services(
    client: &CachedClient<'_>,
    identity: &Identity,
) -> Result<BTreeMap<String, Service>, Error> {
    let name = &identity.name;
    let selector =
        format!("{}={},{}={name}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE, labels::NAME);
    let list: ObjectList<Service> =
        client.list(&ListParams::default().labels(&selector), "Service", &selector).await?;
    let ours = list.into_iter().filter(|service| is_owned(service, &identity.owner.uid));
    Ok(ours.map(|service| (service.name_any(), service)).collect())
}

async fn add_services(
    client: &CachedClient<'_>,
    owner: &OwnerReference,
    cluster: &Cluster,
    live: &mut Observed,
) -> Result<(), Error> {
    let desired = services(cluster);
    let needed = names(std::iter::once(&desired.lead).chain(&desired.exposed));
    let aliases = names(desired.aliases.iter());
    let service: fn(&Stores) -> &Store<Service> = |stores| &stores.services;
    let (headless, needed, aliases) = futures::try_join!(
        headless_service(client, owner, cluster),
        try_join_all(needed.iter().map(|name| client.get_owned(name, owner, service))),
        try_join_all(aliases.iter().map(|name| client.get_owned(name, owner, service))),
    )?;
    let mut alias_conflicts = Vec::new();
    let needed = std::iter::once(headless).chain(needed);
    let needed = needed.filter_map(|it| split_conflict(it, &mut live.service_conflicts));
    let aliases = aliases.into_iter().filter_map(|it| split_conflict(it, &mut alias_conflicts));
    live.services = needed.chain(aliases).map(|service| (service.name_any(), service)).collect();
    live.alias_conflicts = alias_conflicts.into_iter().map(NameConflict::into_name).collect();
    Ok(())
}

/// The headless Service: the MiniCluster's own, or one that other MiniClusters share.
async fn headless_service(
    client: &CachedClient<'_>,
    owner: &OwnerReference,
    cluster: &Cluster,
) -> Result<Owned<Service>, Error> {
    let name = &cluster.headless_name;
    let found = client.get_owned(name, owner, |stores| &stores.services).await?;
    if found.is_ok() || !cluster.shares_headless_service() {
        return Ok(found);
    }
    let read = client.objects::<Service>().api.get_opt(name).await;
    let Some(service) = read.map_err(Error::of(Verb::Read, "Service", name))? else {
        return Ok(Ok(None));
    };
    let of_mini_cluster = |it: &&OwnerReference| it.kind == owner.kind;
    let sharer = service.owner_references().iter().find(of_mini_cluster);
    let named = service.labels().get(labels::HEADLESS_NAME);
    if sharer.is_some_and(|it| it.controller != Some(true)) && named == Some(name) {
        return Ok(Ok(Some(service)));
    }
    let owner = sharer.map_or_else(
        || "no MiniCluster".to_owned(),
        |it| format!("the MiniCluster {:?} alone", it.name),
    );
    Ok(Err(NameConflict::Headless { name: name.clone(), owner }))
}

fn names<'all>(services: impl Iterator<Item = &'all Service>) -> Vec<String> {
    services.map(ResourceExt::name_any).collect()
}
