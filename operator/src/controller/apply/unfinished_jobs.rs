//! Publishes Events about jobs that had not ended when a worker had to leave. The pods of an instance that shrinks
//! are deleted as soon as they have ended: a watch brings what they have left, a list would come too late.

use super::events::unfinished;
use super::report::publish;
use crate::controller::context::{Context, Scope, api};
use crate::controller::guard::{LIMIT, guarded};
use crate::controller::kube_ext::end_of;
use crate::controller::observe::stores::{
    JOB, MINI_CLUSTER, controlled_events, controller_of, managed, strip_pod, watch_config,
};
use flux_contract::{TerminationMessage, labels};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

const FAILED: &str = "status.phase=Failed";

pub(crate) async fn run(
    context: Arc<Context>,
    scope: &Scope,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let pods = api(&context.client, scope.namespace.as_deref());
    let index = labels::COMPLETION_INDEX;
    let of_workers = managed(&format!(",{index},{index}!=0"));
    let config = watch_config().labels(&of_workers).fields(FAILED);
    let mut workers = FailedWorkers::default();
    controlled_events(pods, config, JOB, strip_pod)
        .take_until(shutdown)
        .filter_map(|event| ready(workers.news(event)))
        .for_each_concurrent(usize::from(scope.concurrency), async |(pod, jobs)| {
            let Some(cluster) = cluster_of(&context, &pod) else { return };
            let event = unfinished(&pod.name_any(), &jobs);
            let published = publish(&context, &cluster, &event).map(Ok);
            if let Err(error) = guarded(LIMIT, published).await {
                tracing::warn!(error = error.chain(), ?jobs, "publish an Event");
            }
        })
        .await;
}

/// The failed pods there are that have left jobs, by uid.
#[derive(Default)]
struct FailedWorkers(HashSet<String>);

impl FailedWorkers {
    /// A pod that has failed just now, and the jobs that it has left: of each pod once, and nothing of those that a
    /// watch begins with. Whoever watched when they failed has published their Events.
    fn news(&mut self, event: watcher::Result<watcher::Event<Pod>>) -> Option<(Pod, Vec<String>)> {
        match event {
            Ok(watcher::Event::Apply(pod)) => {
                let jobs = unfinished_jobs(&pod)?;
                self.0.insert(pod.uid()?).then_some((pod, jobs))
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

/// The jobs that the agent of `pod` has left, if there are any. Job and runner have the name of their MiniCluster.
fn unfinished_jobs(pod: &Pod) -> Option<Vec<String>> {
    let owner = controller_of(pod, JOB)?;
    let message = end_of(pod, &owner.name)?.message.as_deref()?;
    let unfinished = TerminationMessage::from_json(message)?.unfinished_jobs;
    (!unfinished.is_empty()).then_some(unfinished)
}

fn cluster_of(context: &Context, pod: &Pod) -> Option<ObjectReference> {
    let job = &controller_of(pod, JOB)?.name;
    let job = ObjectRef::new(job).within(&pod.namespace()?);
    let job = context.stores.jobs.get(&job)?;
    let owner = controller_of(&*job, MINI_CLUSTER)?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        name: Some(owner.name.clone()),
        namespace: pod.namespace(),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{self, ended, pod};
    use http::Response;
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::client::Body;
    use serde_json::json;
    use std::future::pending;

    /// A worker that ended as `message` says.
    fn worker(message: &str) -> Pod {
        let mut pod = pod("hello-1-x", "Failed", "hello", ended(75, "Error", Some(message)));
        pod.metadata.uid = Some("1".to_owned());
        pod.metadata.namespace = Some("apps".to_owned());
        pod.metadata.owner_references = Some(vec![controlled_by(JOB)]);
        pod
    }

    fn controlled_by(kind: &str) -> OwnerReference {
        OwnerReference {
            kind: kind.to_owned(),
            name: "hello".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }
    }

    const LEFT: &str = r#"{"exitCode":75,"commandRan":false,"unfinishedJobs":["ƒ1","ƒ2"]}"#;

    #[test]
    fn each_pod_that_has_left_jobs_is_news_once_and_never_when_a_watch_begins_with_it() {
        let mut workers = FailedWorkers::default();
        let (_, jobs) = workers.news(Ok(watcher::Event::Apply(worker(LEFT)))).unwrap();
        assert_eq!(jobs, ["ƒ1", "ƒ2"]);
        for event in [watcher::Event::InitApply, watcher::Event::Delete] {
            assert_eq!(workers.news(Ok(event(worker(LEFT)))), None);
        }
        assert!(workers.0.is_empty());
        for left in [r#"{"exitCode":75,"commandRan":false}"#, "Killed"] {
            assert_eq!(workers.news(Ok(watcher::Event::Apply(worker(left)))), None);
        }
        for event in [watcher::Event::InitApply, watcher::Event::Apply] {
            assert_eq!(workers.news(Ok(event(worker(LEFT)))), None);
        }
        // It went while there was no watch.
        assert_eq!(workers.news(Ok(watcher::Event::Init)), None);
        assert!(workers.0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_holds_up_no_other_event() {
        let (context, mut server) = fixtures::context();
        let mut writers = context.writers.lock().take().unwrap();
        let mut job = Job::default();
        (job.metadata.name, job.metadata.namespace) = (Some("hello".into()), Some("apps".into()));
        job.metadata.owner_references = Some(vec![controlled_by(MINI_CLUSTER)]);
        writers.jobs.apply_watcher_event(&watcher::Event::Apply(job));
        let line = |uid: &str| {
            let mut pod = worker(LEFT);
            pod.metadata.uid = Some(uid.to_owned());
            pod.metadata.resource_version = Some("2".to_owned());
            format!("{}\n", json!({ "type": "MODIFIED", "object": pod }))
        };
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
        let server = async {
            let (mut events, mut unanswered) = (0, Vec::new());
            while events < 2 {
                let (request, respond) = server.next_request().await.unwrap();
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch"));
                let body = match request.uri().path() {
                    "/api/v1/pods" if is_watch && events == 0 => line("1") + &line("2"),
                    "/api/v1/pods" if !is_watch => list.clone(),
                    path => {
                        events += usize::from(path.ends_with("/namespaces/apps/events"));
                        unanswered.push(respond);
                        continue;
                    }
                };
                respond.send_response(Response::new(Body::from(body.into_bytes())));
            }
        };
        let scope = Scope { namespace: None, concurrency: 1 };
        tokio::select! {
            () = run(Arc::new(context), &scope, pending()) => unreachable!(),
            () = server => {}
        }
    }
}
