//! One look at one MiniCluster: observe, validate, build, apply, status.

use super::Context;
use super::agent_change::{Started, started};
use super::apply::{self, Live};
use super::build::{self, AGENT_CONFIG_KEY, agent_config};
use super::error::Error;
use super::job_change::{
    GENERATION_ANNOTATION, JobChange, changed_fields, is_finished, job_change,
};
use super::observe::{Observed, Trouble, lacks_pods, ours, pods};
use super::report::report;
use super::services_change::{ServicesChange, services_change};
use super::services_pod;
use super::status::{finished_generation, invalid, status};
use crate::cluster::{Cluster, validate};
use crate::crd::{MiniCluster, MiniClusterStatus};
use crate::curve;
use flux_contract::{AgentConfig, Bootstrap};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Wait before the next look at a Job that gets fewer pods than it asks for: nothing tells of it.
const REFUSED_PODS: Duration = Duration::from_secs(10);

/// Brings one MiniCluster in line with its specification and says how it stands.
pub(super) async fn reconcile(
    marker: Arc<PartialObjectMeta<MiniCluster>>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let (namespace, name) = (marker.namespace().unwrap_or_default(), marker.name_any());
    let api: Api<MiniCluster> = Api::namespaced(context.client.clone(), &namespace);
    // Read afresh: a watch may lag behind what was written a moment ago, and a decision taken on
    // an old specification would have to be taken back.
    let read = api.get_opt(&name).await.map_err(|source| Error::Read {
        kind: "MiniCluster".to_owned(),
        name: name.clone(),
        source: Box::new(source),
    })?;
    let Some(object) = read else { return Ok(Action::await_change()) };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let generation = object.metadata.generation.unwrap_or_default();
    let old = object.status.as_ref();
    let cluster = match validate(&object, &context.defaults) {
        Ok(cluster) => cluster,
        Err(violations) => {
            tracing::warn!(%violations, "the specification is invalid");
            let status = invalid(old, &name, generation, &violations, now());
            report(&api, &context.recorder, &object, &status).await?;
            return Ok(Action::await_change());
        }
    };
    let mut observed =
        Observed { generation, maximum_size: cluster.max_size, ..Observed::default() };
    let result = Box::pin(pursue(&context, &cluster, old, &mut observed)).await;
    if let Err(conflict @ Error::Conflict { .. }) = result {
        // What was read is out of date already: no reason to tell of it.
        return Err(conflict);
    }
    observed.trouble = result.as_ref().err().map(Trouble::from);
    let status = status(old, &cluster, &observed, now());
    report(&api, &context.recorder, &object, &status).await?;
    result?;
    if cluster.cleanup && finished_generation(&status).is_some() {
        tracing::info!("delete the MiniCluster: its lead has finished and cleanup is asked for");
        apply::delete(&api, &object).await?;
    }
    Ok(if observed.job.as_ref().is_some_and(lacks_pods) {
        Action::requeue(REFUSED_PODS)
    } else {
        Action::await_change()
    })
}

/// Applies what is missing and reads what there is, noting it in `observed` on the way, so that
/// the status is as complete as can be even if a step fails.
async fn pursue(
    context: &Context,
    cluster: &Cluster,
    old: Option<&MiniClusterStatus>,
    observed: &mut Observed,
) -> Result<(), Error> {
    let jobs: Api<Job> = Api::namespaced(context.client.clone(), &cluster.namespace);
    observed.job = ours(&jobs, cluster.name.as_str(), &cluster.owner).await?;
    let over = match &observed.job {
        Some(job) => is_finished(job),
        // A Job that was deleted after its end is not run again for the same specification.
        None => old.and_then(finished_generation) == Some(observed.generation),
    };
    if !over {
        Box::pin(realise(context, cluster, observed)).await?;
    }
    pods(&context.client, cluster, observed).await?;
    if over {
        services_pod::retire(&context.client, cluster).await?;
    }
    Ok(())
}

/// Applies all objects.
async fn realise(
    context: &Context,
    cluster: &Cluster,
    observed: &mut Observed,
) -> Result<(), Error> {
    let client = &context.client;
    let services = build::services(cluster);
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), &cluster.namespace);
    let config_name = cluster.name.agent_config_map();
    let (lead, config_map, services_pod) = futures::try_join!(
        apply::services(client, cluster, &services),
        ours(&configs, &config_name, &cluster.owner),
        services_pod::live(client, cluster),
    )?;
    let live = Live { config_map, job: observed.job.clone() };
    let Started { cluster, config, refused } = fitted(cluster, lead, &live, observed.generation);
    observed.refused = refused;
    if let Some(job) = &observed.job {
        observed.refused.extend(changed_fields(job, &cluster.fixed_fields));
    }
    observed.maximum_size = maximum_size(&cluster, &config);
    let mut desired = build::build(&cluster, lead, &context.images, observed.generation)
        .map_err(|source| Error::Build { source })?;
    desired.config_map =
        build::config_map(&cluster, &config).map_err(|source| Error::Build { source })?;
    let services_change = services_change(
        services_pod.as_ref(),
        desired.services_pod.as_ref(),
        cluster.services.as_ref(),
    );
    if let ServicesChange::Refuse(fields) = &services_change {
        observed.refused.extend(fields.iter().cloned());
    }
    let refused = !observed.refused.is_empty();
    let change = job_change(observed.job.as_ref(), &desired.job, refused);
    if matches!(change, JobChange::Create) {
        let text = curve::certificate(&cluster, getrandom::fill)
            .map_err(|source| Error::Curve { source })?;
        if let Some(secret) = text.and_then(|text| build::secret(&cluster, &text)) {
            apply::secret(client, &cluster, &secret).await?;
        }
    }
    observed.services =
        services_pod::realise(client, &cluster, services_pod, &services_change).await?;
    let applied = Box::pin(apply::desired(client, &cluster, desired, live, &change)).await?;
    observed.job = Some(applied.job);
    Ok(())
}

/// The cluster and its agents' configuration, cut to what a running instance can take.
fn fitted(cluster: &Cluster, lead: Option<IpAddr>, live: &Live, generation: i64) -> Started {
    let fresh = || Started {
        cluster: cluster.clone(),
        config: agent_config(cluster, lead),
        refused: Vec::new(),
    };
    let Some(job) = &live.job else { return fresh() };
    let data = live.config_map.as_ref().and_then(|live| live.data.as_ref());
    let text = data.and_then(|data| data.get(AGENT_CONFIG_KEY));
    // Deleted, or written by an operator with another protocol: the present one's is the best
    // there is.
    let Some(config) = text.and_then(|text| AgentConfig::from_toml(text).ok()) else {
        return fresh();
    };
    let backoff_limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit).unwrap_or_default();
    let fitted = started(cluster.clone(), &config, backoff_limit.unsigned_abs(), lead);
    if job.annotations().get(GENERATION_ANNOTATION) == Some(&generation.to_string()) {
        // Nothing was asked for since: what differs is a newer operator's way to say the same.
        let mut config = config;
        config.network.lead_address = fitted.config.network.lead_address;
        return Started { config, refused: Vec::new(), ..fitted };
    }
    fitted
}

/// Hosts that a size may reach: all of Flux's that are this MiniCluster's pods.
fn maximum_size(cluster: &Cluster, config: &AgentConfig) -> u32 {
    match &config.network.bootstrap {
        Bootstrap::Child { .. } => cluster.max_size,
        Bootstrap::Root { hosts } => {
            let own =
                (0..).take_while(|&index| hosts.rank(&cluster.name.pod_hostname(index)).is_some());
            u32::try_from(own.count()).unwrap_or(u32::MAX)
        }
    }
}

/// The time in whole seconds, as Kubernetes writes it.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
