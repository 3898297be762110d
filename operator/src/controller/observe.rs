//! What there is in the cluster.

use super::error::Error;
use super::job_change::is_finished;
use crate::cluster::Cluster;
use flux_contract::labels;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// What the status is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Generation of the MiniCluster.
    pub generation: i64,
    /// The Job, if there is one.
    pub job: Option<Job>,
    /// The newest pod with index 0.
    pub lead: Option<Pod>,
    /// A worker's pod that failed, when the Job did.
    pub failed_worker: Option<Pod>,
    /// Hosts registered with Flux.
    pub maximum_size: u32,
    /// What was asked for and cannot be had while the Job exists.
    pub refused: Vec<String>,
    /// What kept the objects from being applied.
    pub trouble: Option<Trouble>,
}

/// A failure as the conditions show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Reason in `CamelCase`.
    pub reason: &'static str,
    /// What was being done, to what, and why it failed.
    pub message: String,
}

impl From<&Error> for Trouble {
    fn from(error: &Error) -> Self {
        Self { reason: error.category(), message: error.chain() }
    }
}

/// The object called `name`, if there is one and it is ours.
pub(super) async fn ours<K>(
    api: &Api<K>,
    name: &str,
    owner: &OwnerReference,
) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = || K::kind(&()).into_owned();
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        kind: kind(),
        name: name.to_owned(),
        source: Box::new(source),
    })?;
    let Some(object) = found else { return Ok(None) };
    let owners = object.owner_references();
    if owners.iter().any(|other| other.uid == owner.uid) {
        return Ok(Some(object));
    }
    let namesake = |other: &OwnerReference| other.kind == owner.kind && other.name == owner.name;
    let name = name.to_owned();
    Err(if owners.iter().any(namesake) {
        Error::Predecessor { kind: kind(), name }
    } else {
        Error::NameTaken { kind: kind(), name }
    })
}

/// Reads the lead's pod and, when the Job has failed through no fault of the lead, a worker's pod
/// that did.
pub(super) async fn pods(
    client: &Client,
    cluster: &Cluster,
    observed: &mut Observed,
) -> Result<(), Error> {
    let Some(job) = &observed.job else { return Ok(()) };
    let api: Api<Pod> = Api::namespaced(client.clone(), &cluster.namespace);
    let of_job = format!("{}={}", labels::JOB_NAME, cluster.name);
    let lead = ListParams::default().labels(&format!("{of_job},{}=0", labels::COMPLETION_INDEX));
    observed.lead = list(&api, &lead, job).await?.into_iter().max_by_key(age);
    let failed = job.status.as_ref().and_then(|status| status.failed).unwrap_or_default() > 0;
    let lead_failed = observed.lead.as_ref().is_some_and(has_failed);
    if is_finished(job) && failed && !lead_failed {
        let failed = ListParams::default().labels(&of_job).fields("status.phase=Failed");
        observed.failed_worker = list(&api, &failed, job).await?.into_iter().min_by_key(age);
    }
    Ok(())
}

async fn list(api: &Api<Pod>, parameters: &ListParams, job: &Job) -> Result<Vec<Pod>, Error> {
    let pods = api.list(parameters).await.map_err(|source| Error::Read {
        kind: "Pods of Job".to_owned(),
        name: job.name_any(),
        source: Box::new(source),
    })?;
    // A Job of the same name may have gone a moment ago, and its pods not yet.
    let owned = |pod: &Pod| {
        pod.owner_references().iter().any(|owner| Some(&owner.uid) == job.uid().as_ref())
    };
    Ok(pods.items.into_iter().filter(owned).collect())
}

/// Orders pods by their creation, then by name.
fn age(pod: &Pod) -> (Option<jiff::Timestamp>, String) {
    (pod.creation_timestamp().map(|time| time.0), pod.name_any())
}

fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}
