//! What there is in the cluster.

use super::error::Error;
use super::job_change::is_finished;
use crate::cluster::Cluster;
use flux_contract::labels;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
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
    /// The services pod, if there is one.
    pub services: Option<Pod>,
    /// A worker's pod that failed, when the Job did.
    pub failed_worker: Option<Pod>,
    /// Why the Job gets fewer pods than it asks for.
    pub pods_refused: Option<String>,
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
    if lacks_pods(job) {
        observed.pods_refused = refusal(client, cluster, job).await?;
    }
    Ok(())
}

/// True when the Job is under way and the Job controller has made fewer pods than it should. No
/// change of the Job tells when that ends, or why it is so.
pub(super) fn lacks_pods(job: &Job) -> bool {
    let Some(status) = job.status.as_ref().filter(|status| status.start_time.is_some()) else {
        return false;
    };
    let spec = job.spec.as_ref();
    let wanted = spec.and_then(|spec| spec.parallelism).unwrap_or_default();
    let suspended = spec.and_then(|spec| spec.suspend) == Some(true);
    let counts = [status.active, status.succeeded, status.failed, status.terminating];
    let made: i32 = counts.into_iter().flatten().sum();
    !is_finished(job) && !suspended && made < wanted
}

/// What the Job controller says about pods it could not make: an admission plugin refuses them
/// (Pod Security, a quota), in Events alone.
async fn refusal(client: &Client, cluster: &Cluster, job: &Job) -> Result<Option<String>, Error> {
    let api: Api<Event> = Api::namespaced(client.clone(), &cluster.namespace);
    let uid = job.uid().unwrap_or_default();
    let fields = format!("involvedObject.uid={uid},reason=FailedCreate");
    let events =
        api.list(&ListParams::default().fields(&fields)).await.map_err(|source| Error::Read {
            kind: "Events of Job".to_owned(),
            name: job.name_any(),
            source: Box::new(source),
        })?;
    let newest = events.items.into_iter().max_by_key(|event| {
        let written = event.creation_timestamp().map(|time| time.0);
        event.last_timestamp.as_ref().map(|time| time.0).or(written)
    });
    Ok(newest.and_then(|event| event.message).map(|message| refused(&message)))
}

/// The Job controller's words without the pod's name: it makes another pod each time.
fn refused(message: &str) -> String {
    let text = message.strip_prefix("Error creating: ").unwrap_or(message);
    let rest = text.strip_prefix("pods \"").and_then(|rest| rest.split_once("\" "));
    let rest = rest.map_or(text, |(_, rest)| rest.strip_prefix("is ").unwrap_or(rest));
    format!("pods are refused: {rest}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{ended_job, job};

    #[test]
    fn a_refusal_is_quoted_without_the_name_of_the_pod_that_never_was() {
        let message = r#"Error creating: pods "hello-0-9v5kq" is forbidden: exceeded quota: few"#;
        assert_eq!(refused(message), "pods are refused: forbidden: exceeded quota: few");
        assert_eq!(refused("no node"), "pods are refused: no node");
    }

    #[test]
    fn pods_are_lacking_only_while_the_job_is_under_way() {
        let mut job = job(0);
        assert!(!lacks_pods(&job));
        let status = job.status.as_mut().unwrap();
        (status.active, status.succeeded) = (Some(2), Some(1));
        assert!(lacks_pods(&job));
        job.spec.as_mut().unwrap().suspend = Some(true);
        assert!(!lacks_pods(&job) && !lacks_pods(&ended_job("Failed", "BackoffLimitExceeded")));
    }
}
