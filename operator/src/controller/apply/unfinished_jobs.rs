//! Tells in Events which jobs had not ended when a worker had to leave.
//!
//! The pods of an instance that shrinks are deleted as soon as they have ended. A watch brings what they
//! have left all the same; a list would come too late.

use super::events::unfinished;
use crate::controller::context::{Context, Scope, api};
use crate::controller::error::Error;
use crate::controller::guard::{LIMIT, guarded};
use crate::controller::observe::stores::{
    JOB, MINI_CLUSTER, controlled_events, controller_of, strip_pod, watch_config,
};
use flux_contract::TerminationMessage;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

/// Workers of ours.
pub(in crate::controller) const WORKERS: &str = "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index,batch.kubernetes.io/job-completion-index!=0";
/// One that was told to stop ends with a code of its own, so that its pod has failed.
const FAILED: &str = "status.phase=Failed";

/// Publishes Events until `shutdown` resolves.
pub(in crate::controller) async fn run(
    context: Arc<Context>,
    scope: &Scope,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let pods = api(&context.client, scope.namespace.as_deref());
    let config = watch_config().labels(WORKERS).fields(FAILED);
    let mut workers = FailedWorkers::default();
    controlled_events(pods, config, JOB, strip_pod)
        .take_until(shutdown)
        .filter_map(|event| ready(workers.of(event)))
        .for_each_concurrent(usize::from(scope.concurrency), |unfinished_jobs| {
            tell(&context, unfinished_jobs)
        })
        .await;
}

/// A worker that has left jobs behind.
#[derive(Debug, PartialEq)]
struct UnfinishedJobs {
    pod: String,
    namespace: String,
    job: String,
    unfinished: Vec<String>,
}

/// The failed pods there are that have left jobs, by uid.
#[derive(Default)]
struct FailedWorkers(HashSet<String>);

impl FailedWorkers {
    /// What there is to tell: of each pod once, and nothing of those that a watch begins with. Whoever watched when they
    /// failed has told of them.
    fn of(&mut self, event: watcher::Result<watcher::Event<Pod>>) -> Option<UnfinishedJobs> {
        match event {
            Ok(watcher::Event::Apply(pod)) => {
                let unfinished_jobs = unfinished_jobs(&pod)?;
                self.0.insert(pod.uid()?).then_some(unfinished_jobs)
            }
            Ok(watcher::Event::InitApply(pod)) => {
                self.0.extend(unfinished_jobs(&pod).and_then(|_| pod.uid()));
                None
            }
            Ok(watcher::Event::Delete(pod)) => {
                self.0.remove(&pod.uid()?);
                None
            }
            Ok(watcher::Event::Init) => {
                self.0.clear();
                None
            }
            Ok(watcher::Event::InitDone) => None,
            Err(error) => {
                tracing::warn!(%error, "watch the pods that have failed");
                None
            }
        }
    }
}

/// What the agent of `pod` has left, if that names jobs. Job and runner have the name of their MiniCluster.
fn unfinished_jobs(pod: &Pod) -> Option<UnfinishedJobs> {
    let owner = controller_of(pod, JOB)?;
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let runner = containers.iter().find(|container| container.name == owner.name)?;
    let message = runner.state.as_ref()?.terminated.as_ref()?.message.as_deref()?;
    let unfinished = TerminationMessage::from_json(message)?.unfinished_jobs;
    (!unfinished.is_empty()).then(|| UnfinishedJobs {
        pod: pod.name_any(),
        namespace: pod.namespace().unwrap_or_default(),
        job: owner.name.clone(),
        unfinished,
    })
}

/// Publishes an Event about the MiniCluster. One that cannot be written is no reason to do anything again.
async fn tell(context: &Context, unfinished_jobs: UnfinishedJobs) {
    if let Err(error) = guarded(LIMIT, publish(context, &unfinished_jobs)).await {
        let error = error.chain();
        tracing::warn!(error, ?unfinished_jobs, "publish an Event about jobs that have not ended");
    }
}

async fn publish(context: &Context, unfinished_jobs: &UnfinishedJobs) -> Result<(), Error> {
    let UnfinishedJobs { pod, namespace, job, unfinished: jobs } = unfinished_jobs;
    let api: Api<Job> = Api::namespaced(context.client.clone(), namespace);
    let job = api.get_metadata_opt(job).await.map_err(|source| Error::Read {
        kind: JOB.to_owned(),
        name: job.clone(),
        source: Box::new(source),
    })?;
    let Some(cluster) = job.as_ref().and_then(cluster_of) else {
        return Ok(());
    };
    let published = context.recorder().publish(&unfinished(pod, jobs), &cluster).await;
    published.map_err(|source| Error::Apply {
        kind: "Event".to_owned(),
        name: pod.clone(),
        source: Box::new(source),
    })
}

/// The MiniCluster that controls a Job.
fn cluster_of(job: &PartialObjectMeta<Job>) -> Option<ObjectReference> {
    let owner = controller_of(job, MINI_CLUSTER)?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        name: Some(owner.name.clone()),
        namespace: job.metadata.namespace.clone(),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{defaults, ended, images, pod};
    use http::{Request, Response};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use std::future::pending;

    /// A worker that ended as `message` says.
    fn worker(message: &str) -> Pod {
        let mut pod = pod("hello-1-x", "Failed", "hello", ended(75, "Error", Some(message)));
        pod.metadata.uid = Some("1".to_owned());
        pod.metadata.namespace = Some("apps".to_owned());
        pod.metadata.owner_references = Some(vec![OwnerReference {
            kind: JOB.to_owned(),
            name: "hello".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        pod
    }

    #[test]
    fn each_pod_that_has_left_jobs_is_told_of_once() {
        let message = r#"{"exitCode":75,"commandRan":false,"unfinishedJobs":["ƒ1","ƒ2"]}"#;
        let mut workers = FailedWorkers::default();
        let told = workers.of(Ok(watcher::Event::Apply(worker(message)))).unwrap();
        assert_eq!((told.job.as_str(), told.unfinished), ("hello", vec!["ƒ1".into(), "ƒ2".into()]));
        assert_eq!(workers.of(Ok(watcher::Event::InitApply(worker(message)))), None);
        assert_eq!(workers.of(Ok(watcher::Event::Delete(worker(message)))), None);
        assert!(workers.0.is_empty());
        let without = r#"{"exitCode":75,"commandRan":false}"#;
        assert_eq!(workers.of(Ok(watcher::Event::Apply(worker(without)))), None);
        assert_eq!(workers.of(Ok(watcher::Event::Apply(worker("Killed")))), None);
    }

    #[test]
    fn what_a_watch_begins_with_was_told_by_whoever_watched_before() {
        let worker = || worker(r#"{"exitCode":75,"commandRan":false,"unfinishedJobs":["ƒ1"]}"#);
        let mut workers = FailedWorkers::default();
        assert_eq!(workers.of(Ok(watcher::Event::InitApply(worker()))), None);
        assert_eq!(workers.of(Ok(watcher::Event::Apply(worker()))), None);
        // It went while there was no watch.
        assert_eq!(workers.of(Ok(watcher::Event::Init)), None);
        assert!(workers.0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_holds_up_no_other_event() {
        let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let client = Client::new(service, "apps");
        let context =
            Arc::new(Context::new(client, None, Arc::default(), images("agent"), defaults()));
        let message = r#"{"exitCode":75,"commandRan":false,"unfinishedJobs":["ƒ1"]}"#;
        let line = |uid: &str| {
            let mut pod = worker(message);
            pod.metadata.uid = Some(uid.to_owned());
            pod.metadata.resource_version = Some("2".to_owned());
            format!("{}\n", json!({ "type": "MODIFIED", "object": pod }))
        };
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
        let server = async {
            let (mut jobs, mut unanswered) = (0, Vec::new());
            while jobs < 2 {
                let (request, respond) = server.next_request().await.unwrap();
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch"));
                let body = match request.uri().path() {
                    "/api/v1/pods" if is_watch && jobs == 0 => line("1") + &line("2"),
                    "/api/v1/pods" if !is_watch => list.clone(),
                    "/apis/batch/v1/namespaces/apps/jobs/hello" => {
                        jobs += 1;
                        unanswered.push(respond);
                        continue;
                    }
                    _ => {
                        unanswered.push(respond);
                        continue;
                    }
                };
                respond.send_response(Response::new(Body::from(body.into_bytes())));
            }
        };
        let scope = Scope { namespace: None, concurrency: 1 };
        tokio::select! {
            () = run(context, &scope, pending()) => unreachable!(),
            () = server => {}
        }
    }
}
