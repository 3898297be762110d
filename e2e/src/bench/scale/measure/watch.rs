//! What is seen of the Jobs and MiniClusters of a namespace, and when.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result};
use flux_operator::crd::MiniCluster;
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::DynamicObject,
    discovery::ApiResource,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

/// How long a MiniCluster may take to say what its Job has said; an operator that does not say it is not
/// waited for longer.
const REPORT: Duration = Duration::from_secs(20);

/// Seconds since the first MiniCluster was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(in super::super) struct Times {
    /// Every Job was there.
    #[serde(rename = "jobs_seconds")]
    pub(in super::super) jobs: f64,
    /// The last Job was complete.
    #[serde(rename = "complete_seconds")]
    pub(in super::super) complete: f64,
    /// The last MiniCluster said that it was, where the operator says so.
    #[serde(rename = "reported_seconds")]
    pub(in super::super) reported: Option<f64>,
}

/// What was seen.
pub(super) struct Seen {
    begun: Instant,
    wanted: usize,
    state: Mutex<State>,
    ready: Notify,
}

#[derive(Default)]
struct State {
    jobs: Reached,
    complete: Reached,
    reported: Reached,
    /// The Job with the most pods that are ready, and how many.
    most_ready: Option<(String, u32)>,
}

/// The objects that have got somewhere, and when the last did so.
#[derive(Default)]
struct Reached {
    names: HashSet<String>,
    last: Duration,
}

impl Reached {
    fn note(&mut self, name: String, now: Duration) {
        if self.names.insert(name) {
            self.last = now;
        }
    }
}

impl Seen {
    /// Nothing yet of as many MiniClusters.
    pub(super) fn new(miniclusters: u32) -> Self {
        Self {
            begun: Instant::now(),
            wanted: usize::try_from(miniclusters).unwrap_or(usize::MAX),
            state: Mutex::default(),
            ready: Notify::new(),
        }
    }

    /// Time since the first MiniCluster was created.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Watches for ever; returns only where that fails.
    pub(super) async fn watch(&self, client: &Client, namespace: &str) -> Error {
        let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
        let resource = ApiResource::erase::<MiniCluster>(&());
        let miniclusters: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &resource);
        let watched = futures::try_join!(
            follow(watcher(jobs, watcher::Config::default()), |job| self.note_job(&job)),
            follow(watcher(miniclusters, watcher::Config::default()), |it| self.note_cluster(&it)),
        );
        match watched {
            Ok(_) => Error::msg("the watches have ended"),
            Err(error) => error,
        }
    }

    fn note_job(&self, job: &Job) {
        let (name, now) = (job.name_any(), self.elapsed());
        let status = job.status.as_ref();
        let ready = status.and_then(|status| status.ready).unwrap_or_default();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let complete = conditions
            .into_iter()
            .flatten()
            .any(|it| it.type_ == "Complete" && it.status == "True");
        let mut state = self.state();
        state.jobs.note(name.clone(), now);
        if complete {
            state.complete.note(name.clone(), now);
        }
        let ready = u32::try_from(ready).unwrap_or_default();
        if state.most_ready.as_ref().is_none_or(|(_, most)| ready > *most) {
            state.most_ready = Some((name, ready));
            self.ready.notify_one();
        }
    }

    fn note_cluster(&self, cluster: &DynamicObject) {
        let conditions = cluster.data.pointer("/status/conditions").and_then(Value::as_array);
        let complete = conditions
            .into_iter()
            .flatten()
            .any(|it| it["type"] == "Complete" && it["status"] == "True");
        if complete {
            self.state().reported.note(cluster.name_any(), self.elapsed());
        }
    }

    /// Waits until as many pods of a Job are ready, and returns the Job's name.
    pub(super) async fn ready(&self, pods: u32) -> String {
        loop {
            let most = self.state().most_ready.clone();
            if let Some((job, ready)) = most
                && ready >= pods
            {
                return job;
            }
            self.ready.notified().await;
        }
    }

    /// Whether all is done that will be.
    pub(super) fn all_done(&self) -> bool {
        let state = self.state();
        let complete = state.complete.names.len() >= self.wanted;
        let reported = state.reported.names.len() >= self.wanted;
        complete && (reported || self.elapsed() > state.complete.last + REPORT)
    }

    /// When it was.
    pub(super) fn times(&self) -> Times {
        let state = self.state();
        let all_reported = state.reported.names.len() >= self.wanted;
        Times {
            jobs: state.jobs.last.as_secs_f64(),
            complete: state.complete.last.as_secs_f64(),
            reported: all_reported.then_some(state.reported.last.as_secs_f64()),
        }
    }

    /// What was seen, for people.
    pub(super) fn describe(&self) -> String {
        let state = self.state();
        let reached = |what: &str, Reached { names, last }: &Reached| {
            format!("{} {what} after {:.1} s", names.len(), last.as_secs_f64())
        };
        [
            reached("Jobs", &state.jobs),
            reached("Jobs complete", &state.complete),
            reached("MiniClusters complete", &state.reported),
        ]
        .join(", ")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows `note` every object as it changes.
async fn follow<K: Resource + Clone>(
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
    note: impl Fn(K),
) -> Result<()> {
    let changes = events.default_backoff().applied_objects();
    changes
        .try_for_each(|object| {
            note(object);
            std::future::ready(Ok(()))
        })
        .await
        .context("watching what becomes of the MiniClusters")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(name: &str, status: &Value) -> Job {
        let job = json!({"metadata": {"name": name}, "status": status});
        serde_json::from_value(job).unwrap()
    }

    fn cluster(name: &str, status: &str) -> DynamicObject {
        let conditions = [json!({"type": "Complete", "status": status})];
        let object = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn all_is_done_when_every_job_is_complete_and_every_minicluster_says_so() {
        let seen = Seen::new(2);
        for name in ["a", "b"] {
            seen.note_job(&job(name, &json!({"ready": 1})));
            seen.note_cluster(&cluster(name, "False"));
        }
        assert!(!seen.all_done());
        for name in ["a", "b"] {
            let complete = [json!({"type": "Complete", "status": "True"})];
            seen.note_job(&job(name, &json!({"conditions": complete})));
        }
        assert!(!seen.all_done(), "they do not say so yet");
        seen.note_cluster(&cluster("a", "True"));
        seen.note_cluster(&cluster("a", "True"));
        assert!(!seen.all_done() && seen.times().reported.is_none());
        seen.note_cluster(&cluster("b", "True"));
        let times = seen.times();
        assert!(seen.all_done() && times.jobs <= times.complete);
        assert!(times.complete <= times.reported.unwrap());
    }

    #[tokio::test]
    async fn a_job_is_ready_when_all_its_pods_are() {
        let seen = Seen::new(1);
        seen.note_job(&job("a", &json!({"ready": 3})));
        let (job, ()) = tokio::join!(seen.ready(4), async {
            seen.note_job(&job("a", &json!({"ready": 4})));
        });
        assert_eq!(job, "a");
    }
}
