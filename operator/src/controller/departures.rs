//! Tells in Events which jobs had not ended when a worker had to leave.
//!
//! The pods of an instance that shrinks are deleted as soon as they have ended. A watch brings what they
//! have left all the same; a list would come too late.

use super::context::{Context, Scope, api};
use super::events::unfinished;
use super::index_labels::controller;
use super::watches::watch_config;
use crate::crd::MiniCluster;
use flux_contract::TerminationMessage;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::core::ObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource as _, ResourceExt as _};
use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

/// Workers of ours.
pub(super) const WORKERS: &str = "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index,batch.kubernetes.io/job-completion-index!=0";
/// One that was told to stop ends with a code of its own, so that its pod has failed.
const FAILED: &str = "status.phase=Failed";

/// Publishes Events until `shutdown` resolves.
pub(super) async fn run(
    context: Arc<Context>,
    scope: &Scope,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let pods = api::<Pod>(&context.client, scope.namespace.as_deref());
    let config = watch_config().labels(WORKERS).fields(FAILED);
    let mut departures = Departures::default();
    watcher(pods, config)
        .default_backoff()
        .take_until(shutdown)
        .filter_map(|event| ready(departures.of(event)))
        .for_each(|departure| publish(&context, departure))
        .await;
}

/// A worker that has left jobs behind.
#[derive(Debug, PartialEq)]
struct Departure {
    pod: String,
    namespace: String,
    job: String,
    unfinished: Vec<String>,
}

/// The pods that were told of and are still there, by uid.
#[derive(Default)]
struct Departures(HashSet<String>);

impl Departures {
    /// What there is to tell: of each pod once.
    fn of(&mut self, event: watcher::Result<watcher::Event<Pod>>) -> Option<Departure> {
        match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                let departure = departure(&pod)?;
                self.0.insert(pod.uid()?).then_some(departure)
            }
            Ok(watcher::Event::Delete(pod)) => {
                self.0.remove(&pod.uid()?);
                None
            }
            Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
            Err(error) => {
                tracing::warn!(%error, "watch the pods that have failed");
                None
            }
        }
    }
}

/// What the agent of `pod` has left, if that names jobs. Job and runner have the name of their MiniCluster.
fn departure(pod: &Pod) -> Option<Departure> {
    let owner = controller(pod.owner_references())?;
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let runner = containers.iter().find(|container| container.name == owner.name)?;
    let message = runner.state.as_ref()?.terminated.as_ref()?.message.as_deref()?;
    let unfinished = TerminationMessage::from_json(message)?.unfinished_jobs;
    (!unfinished.is_empty()).then(|| Departure {
        pod: pod.name_any(),
        namespace: pod.namespace().unwrap_or_default(),
        job: owner.name.clone(),
        unfinished,
    })
}

/// Publishes an Event about the MiniCluster. One that cannot be written is no reason to do anything again.
async fn publish(context: &Context, departure: Departure) {
    let Departure { pod, namespace, job, unfinished: jobs } = departure;
    let result = async {
        let api: Api<Job> = Api::namespaced(context.client.clone(), &namespace);
        let job = api.get_metadata_opt(&job).await?;
        match job.as_ref().and_then(|job| cluster_of(&job.metadata)) {
            Some(cluster) => context.recorder().publish(&unfinished(&pod, &jobs), &cluster).await,
            None => Ok(()),
        }
    };
    if let Err(error) = result.await {
        tracing::warn!(%error, namespace, pod, ?jobs, "publish an Event about jobs that have not ended");
    }
}

/// The MiniCluster that controls a Job.
fn cluster_of(job: &ObjectMeta) -> Option<ObjectReference> {
    let owner = controller(job.owner_references.as_deref().unwrap_or_default())?;
    (owner.kind == MiniCluster::kind(&())).then(|| ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        name: Some(owner.name.clone()),
        namespace: job.namespace.clone(),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{ended, pod};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    /// A worker that ended as `message` says.
    fn worker(message: &str) -> Pod {
        let mut pod = pod("hello-1-x", "Failed", "hello", ended(75, "Error", Some(message)));
        pod.metadata.uid = Some("1".to_owned());
        pod.metadata.namespace = Some("apps".to_owned());
        pod.metadata.owner_references = Some(vec![OwnerReference {
            name: "hello".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        pod
    }

    #[test]
    fn each_pod_that_has_left_jobs_is_told_of_once() {
        let message = r#"{"exitCode":75,"commandRan":false,"unfinishedJobs":["ƒ1","ƒ2"]}"#;
        let mut departures = Departures::default();
        let told = departures.of(Ok(watcher::Event::Apply(worker(message)))).unwrap();
        assert_eq!((told.job.as_str(), told.unfinished), ("hello", vec!["ƒ1".into(), "ƒ2".into()]));
        assert_eq!(departures.of(Ok(watcher::Event::InitApply(worker(message)))), None);
        assert_eq!(departures.of(Ok(watcher::Event::Delete(worker(message)))), None);
        assert!(departures.0.is_empty());
        let without = r#"{"exitCode":75,"commandRan":false}"#;
        assert_eq!(departures.of(Ok(watcher::Event::Apply(worker(without)))), None);
        assert_eq!(departures.of(Ok(watcher::Event::Apply(worker("Killed")))), None);
    }
}
