//! What there is in the cluster.

use super::course::Why;
use super::ended_run::EndedRun;
use super::error::Error;
use super::job_change::is_finished;
use super::services_pod;
use super::waiting::{SILENT_LIMIT, Waiting, containers, event_time, is_silent, waiting};
use crate::cluster::{Identity, Violations};
use flux_contract::labels;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Pods that are asked why they do not start.
const PENDING_LIMIT: u32 = 100;

/// The objects that were read before anything is decided.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// The Job.
    pub job: Option<Job>,
    /// Holds what the running instance was started with.
    pub config_map: Option<ConfigMap>,
    /// The pod of `spec.services`.
    pub services_pod: Option<Pod>,
}

/// What the status is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Generation of the MiniCluster.
    pub generation: i64,
    /// What became of its specification.
    pub acceptance: Acceptance,
    /// True when a finished MiniCluster is deleted (`cleanup`).
    pub cleanup: bool,
    /// The Job, if there is one.
    pub job: Option<Job>,
    /// The note of the run that has ended, if this is it.
    pub ended: Option<EndedRun>,
    /// Why the run is not touched, if it is not.
    pub left_alone: Option<Why>,
    /// The newest pod with index 0.
    pub lead: Option<Pod>,
    /// The services pod, if there is one.
    pub services: Option<Pod>,
    /// A worker's pod that failed, when the Job did.
    pub failed_worker: Option<Pod>,
    /// What keeps pods from starting.
    pub waiting: Option<Waiting>,
    /// Why the Job gets fewer pods than it asks for.
    pub pods_refused: Option<String>,
    /// Hosts registered with Flux; absent where nothing says so.
    pub maximum_size: Option<u32>,
    /// True when the instance stays up until it is shut down.
    pub interactive: bool,
    /// What was asked for and cannot be had while the Job exists, or after it has finished.
    pub refused: Vec<String>,
    /// Short names of Services that somebody else has.
    pub names_taken: Vec<String>,
    /// What kept the objects from being applied.
    pub trouble: Option<Trouble>,
}

/// What became of a specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is valid, but for fields that this version does not act on.
    Accepted(Vec<String>),
    /// It was refused for these faults.
    Refused(Violations),
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::Accepted(Vec::new())
    }
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

/// Reads the objects of a MiniCluster. A pod of somebody else with the name of the services pod is
/// in nobody's way unless `services` are asked for.
pub(super) async fn live(
    client: &Client,
    identity: &Identity,
    services: bool,
) -> Result<Live, Error> {
    let Identity { name, namespace, owner } = identity;
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let config_name = name.agent_config_map();
    let (job, config_map, services_pod) = futures::try_join!(
        ours(&jobs, name.as_str(), owner),
        ours(&configs, &config_name, owner),
        services_pod::live(client, identity, services),
    )?;
    Ok(Live { job, config_map, services_pod })
}

/// Reads the lead's pod; why pods do not start, while some do not; and, when the Job has failed
/// through no fault of the lead, a worker's pod that did.
pub(super) async fn pods(
    client: &Client,
    identity: &Identity,
    observed: &mut Observed,
    now: &Time,
) -> Result<(), Error> {
    let Some(job) = observed.job.clone() else { return Ok(()) };
    let api: Api<Pod> = Api::namespaced(client.clone(), &identity.namespace);
    let of_job = format!("{}={}", labels::JOB_NAME, identity.name);
    let lead = ListParams::default().labels(&format!("{of_job},{}=0", labels::COMPLETION_INDEX));
    observed.lead = list(&api, &lead, &job).await?.into_iter().max_by_key(age);
    let failed = job.status.as_ref().and_then(|status| status.failed).unwrap_or_default() > 0;
    let lead_failed = observed.lead.as_ref().is_some_and(has_failed);
    if is_finished(&job) && failed && !lead_failed {
        let failed = ListParams::default().labels(&of_job).fields("status.phase=Failed");
        observed.failed_worker = list(&api, &failed, &job).await?.into_iter().min_by_key(age);
    }
    if lacks_pods(&job) {
        observed.pods_refused = refusal(client, identity, &job).await?;
    }
    if lacks_brokers(&job) {
        observed.waiting = pending(client, identity, &job, now).await?;
    }
    Ok(())
}

/// True while the Job is under way and not all of its brokers are ready: then pods may wait for
/// something, and no change of the Job says so.
pub(super) fn lacks_brokers(job: &Job) -> bool {
    let wanted = job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or_default();
    let ready = job.status.as_ref().and_then(|status| status.ready).unwrap_or_default();
    is_started(job) && ready < wanted
}

/// True when the broker in `pod` is ready, whatever the containers beside it are.
pub(super) fn broker_is_ready(pod: &Pod, runner: &str) -> bool {
    let mut all = pod.status.iter().flat_map(containers);
    all.any(|container| container.name == runner && container.ready)
}

/// Why pods that wait do not start, if they do not only need more time.
async fn pending(
    client: &Client,
    identity: &Identity,
    job: &Job,
    now: &Time,
) -> Result<Option<Waiting>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &identity.namespace);
    let uid = job.uid().unwrap_or_default();
    let pending = ListParams::default()
        .labels(&format!("{}={uid}", labels::CONTROLLER_UID))
        .fields("status.phase=Pending")
        .limit(PENDING_LIMIT);
    let mut pods = list(&api, &pending, job).await?;
    pods.retain(|pod| phase(pod) == Some("Pending"));
    pods.sort_by_key(index);
    let silent = pods.iter().filter(|pod| is_silent(pod)).take(SILENT_LIMIT);
    let warnings = silent.map(|pod| {
        let uid = pod.uid().unwrap_or_default();
        events(client, identity, "Pod", format!("involvedObject.uid={uid},type=Warning"))
    });
    let warnings: Vec<Event> =
        futures::future::try_join_all(warnings).await?.into_iter().flatten().collect();
    Ok(waiting(&pods, &warnings, now))
}

/// The index of a pod within its Job: the lead comes first.
fn index(pod: &Pod) -> (u32, String) {
    let index = pod.labels().get(labels::COMPLETION_INDEX).and_then(|index| index.parse().ok());
    (index.unwrap_or(u32::MAX), pod.name_any())
}

/// True when the Job was started, is not suspended and has not ended.
fn is_started(job: &Job) -> bool {
    let started = job.status.as_ref().is_some_and(|status| status.start_time.is_some());
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    started && !suspended && !is_finished(job)
}

/// True when the Job is under way and the Job controller has made fewer pods than it should. No
/// change of the Job tells when that ends, or why it is so. Pods that have failed are to be replaced,
/// so they do not count.
pub(super) fn lacks_pods(job: &Job) -> bool {
    let wanted = job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or_default();
    let made: i32 = job.status.as_ref().map_or(0, |status| {
        [status.active, status.succeeded, status.terminating].into_iter().flatten().sum()
    });
    is_started(job) && made < wanted
}

/// What the Job controller says about pods it could not make: an admission plugin refuses them
/// (Pod Security, a quota), in Events alone.
async fn refusal(client: &Client, identity: &Identity, job: &Job) -> Result<Option<String>, Error> {
    let uid = job.uid().unwrap_or_default();
    let fields = format!("involvedObject.uid={uid},reason=FailedCreate");
    let events = events(client, identity, "Job", fields).await?;
    let newest = events.into_iter().max_by_key(event_time);
    Ok(newest.and_then(|event| event.message).map(|message| refused(&message)))
}

/// The Events about objects of `kind` that `fields` select.
async fn events(
    client: &Client,
    identity: &Identity,
    kind: &str,
    fields: String,
) -> Result<Vec<Event>, Error> {
    let api: Api<Event> = Api::namespaced(client.clone(), &identity.namespace);
    let list = api.list(&ListParams::default().fields(&fields)).await;
    let list = list.map_err(|source| Error::Read {
        kind: format!("Events of {kind}"),
        name: identity.name.to_string(),
        source: Box::new(source),
    })?;
    Ok(list.items)
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
    phase(pod) == Some("Failed")
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
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
        job.status.as_mut().unwrap().failed = Some(3);
        assert!(lacks_pods(&job), "failed pods are to be made again");
        job.spec.as_mut().unwrap().suspend = Some(true);
        assert!(!lacks_pods(&job) && !lacks_pods(&ended_job("Failed", "BackoffLimitExceeded")));
    }
}
