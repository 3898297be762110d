//! What Kueue says of the Jobs that wait in its queues. It makes an object of its own for each Job, a Workload, and
//! says there what it waits for. No type of it is kept here: which version a cluster serves is asked, and only the
//! words of its conditions are read.
//!
//! Workloads are watched from when the first Job waits in a queue. They are those of all Jobs, so only the words about
//! MiniClusters are kept.

use crate::controller::observe::recent::Name;
use crate::controller::observe::stores::{JOB, MiniClusterMeta, controller_of, watch_config};
use futures::{Stream, StreamExt as _, stream};
use kube::api::ApiResource;
use kube::core::Object;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{Error, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _, discovery};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const GROUP: &str = "kueue.x-k8s.io";
const KIND: &str = "Workload";
/// Label of a Workload: the uid of its Job.
const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
/// How often it is asked whether there are Workloads by now.
const PAUSE: Duration = Duration::from_mins(1);
/// Workloads of a page of the first list, each with the pod template of its Job.
const PAGE: u32 = 20;
/// Longest text that is kept of a Workload: as much as a condition of a MiniCluster repeats.
const TEXT_LIMIT: usize = 8192;

/// Conditions of a Workload that say what it waits for, with their values; the first that is there counts.
const WAITING_CONDITIONS: [(&str, &str); 3] =
    [("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True")];

type Workload = Object<Option<IgnoredAny>, WorkloadStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
struct WorkloadStatus {
    #[serde(default)]
    conditions: Vec<Value>,
}

/// What the Workloads of MiniClusters say.
#[derive(Default)]
pub(crate) struct Workloads {
    /// Whether a Job waits in a queue, or has.
    is_awaited: watch::Sender<bool>,
    said: Mutex<HashMap<Name, Said>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    /// The uid of the Workload.
    by: Option<String>,
    /// The uid of its Job.
    of: String,
    words: String,
}

impl Workloads {
    /// What the Job with this uid, the one of `cluster`, or what it has grown by, waits for; nothing where that is not
    /// said.
    pub(crate) fn words(&self, cluster: &Name, job: &str) -> Option<String> {
        self.is_awaited.send_if_modified(|it| !std::mem::replace(it, true));
        let said = self.said.lock();
        said.get(cluster).filter(|said| said.of == job).map(|said| said.words.clone())
    }

    /// Keeps what `workload` says. True if that is new.
    fn keep(&self, cluster: Name, workload: &Workload) -> bool {
        let conditions = workload.status.as_ref().map(|it| it.conditions.as_slice());
        let Some(words) = waits_for(conditions.unwrap_or_default()) else {
            return self.forget(&cluster, workload);
        };
        let of = workload.labels().get(JOB_UID).cloned().unwrap_or_default();
        let said = Said { by: workload.uid(), of, words };
        self.said.lock().insert(cluster, said.clone()) != Some(said)
    }

    /// True if it was this Workload that had said something. An elastic Job may have two.
    fn forget(&self, cluster: &Name, workload: &Workload) -> bool {
        let mut all = self.said.lock();
        let is_its = all.get(cluster).is_some_and(|said| said.by == workload.uid());
        is_its && all.remove(cluster).is_some()
    }
}

fn waits_for(conditions: &[Value]) -> Option<String> {
    // What one has said that another has taken the place of, or whose Job has ended, is over.
    if conditions.iter().any(|it| it["type"] == "Finished" && it["status"] == "True") {
        return None;
    }
    WAITING_CONDITIONS.iter().find_map(|(type_, status)| {
        let found = conditions.iter().find(|it| it["type"] == *type_ && it["status"] == *status)?;
        let message = found["message"].as_str().filter(|message| !message.is_empty())?;
        Some(message[..message.floor_char_boundary(TEXT_LIMIT)].to_owned())
    })
}

/// The MiniClusters, of those in `clusters`, of which a Workload says something new. It begins when a Job waits in a
/// queue and there are Workloads, and again where they have gone.
pub(crate) fn changes(
    client: Client,
    workloads: Arc<Workloads>,
    namespace: Option<String>,
    clusters: Store<MiniClusterMeta>,
) -> impl Stream<Item = ObjectRef<MiniClusterMeta>> + Send + 'static {
    let asking = (client.clone(), Arc::clone(&workloads));
    let served = stream::unfold(false, move |has_begun| {
        let (client, workloads) = asking.clone();
        async move {
            if has_begun {
                tokio::time::sleep(PAUSE).await;
            }
            Some((served(&client, &workloads).await, true))
        }
    });
    served.flat_map(move |resource| {
        let client = client.clone();
        let api: Api<Workload> = match &namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let (workloads, clusters) = (Arc::clone(&workloads), clusters.clone());
        let mut listed = HashSet::new();
        watcher(api, watch_config().page_size(PAGE))
            .default_backoff()
            .take_while(|event| ready(!is_gone(event)))
            .filter_map(move |event| ready(news(&workloads, &clusters, &mut listed, event)))
    })
}

/// Resolves when a Job waits in a queue and the API server has Workloads.
async fn served(client: &Client, workloads: &Workloads) -> ApiResource {
    // The sender is there.
    let _ = workloads.is_awaited.subscribe().wait_for(|is_awaited| *is_awaited).await;
    loop {
        match discovery::oneshot::group(client, GROUP).await {
            Ok(group) => {
                if let Some((resource, _)) = group.recommended_kind(KIND) {
                    return resource;
                }
            }
            Err(error) => tracing::debug!(%error, "ask whether there are Workloads"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// True when the version that is watched is not served any more.
const fn is_gone(event: &watcher::Result<Event<Workload>>) -> bool {
    match event {
        Err(Error::InitialListFailed(kube::Error::Api(status))) => status.code == 404,
        _ => false,
    }
}

/// Takes in what a watch has brought. The answer is the MiniCluster that it is new for.
fn news(
    workloads: &Workloads,
    clusters: &Store<MiniClusterMeta>,
    listed: &mut HashSet<Name>,
    event: watcher::Result<Event<Workload>>,
) -> Option<ObjectRef<MiniClusterMeta>> {
    let (workload, is_there) = match event {
        Ok(Event::Apply(workload) | Event::InitApply(workload)) => (workload, true),
        Ok(Event::Delete(workload)) => (workload, false),
        Ok(Event::Init) => {
            listed.clear();
            return None;
        }
        Ok(Event::InitDone) => {
            workloads.said.lock().retain(|cluster, _| listed.contains(cluster));
            return None;
        }
        Err(error) => {
            tracing::warn!(%error, "watch Workloads");
            return None;
        }
    };
    // A Job has the name of its MiniCluster, which is known before there is a Job.
    let job = &controller_of(&workload, JOB)?.name;
    let cluster = ObjectRef::new(job).within(&workload.namespace()?);
    clusters.get(&cluster)?;
    let name = (workload.namespace()?, job.clone());
    listed.insert(name.clone());
    let is_new =
        if is_there { workloads.keep(name, &workload) } else { workloads.forget(&name, &workload) };
    is_new.then_some(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_says_first_what_quota_it_lacks() {
        let condition = |type_: &str, status: &str, message: &str| json!({ "type": type_, "status": status, "message": message });
        let lacks = condition("QuotaReserved", "False", "insufficient quota for cpu");
        let evicted = condition("Evicted", "True", "preempted");
        assert_eq!(waits_for(&[evicted.clone(), lacks]).unwrap(), "insufficient quota for cpu");
        assert_eq!(waits_for(std::slice::from_ref(&evicted)).unwrap(), "preempted");
        let replaced = condition("Finished", "True", "Replaced to accommodate a workload");
        assert_eq!(waits_for(&[evicted, replaced]), None);
        assert_eq!(waits_for(&[condition("QuotaReserved", "True", "reserved")]), None);
        assert_eq!(waits_for(&[]), None);
    }

    #[test]
    fn of_two_workloads_of_a_job_the_one_that_has_spoken_last_is_quoted_until_it_goes() {
        let workload = |uid: &str, words: &str| -> Workload {
            let condition = json!({ "type": "Admitted", "status": "False", "message": words });
            serde_json::from_value(json!({
                "metadata": { "name": uid, "uid": uid, "labels": { JOB_UID: "j" } },
                "status": { "conditions": [condition] },
            }))
            .unwrap()
        };
        let (workloads, name) = (Workloads::default(), ("apps".to_owned(), "hello".to_owned()));
        let keep = |uid, words| workloads.keep(name.clone(), &workload(uid, words));
        assert!(keep("1", "no quota") && !keep("1", "no quota") && keep("2", "a check"));
        assert!(!keep("1", ""), "it was not quoted");
        assert_eq!(workloads.words(&name, "j").as_deref(), Some("a check"));
        assert_eq!(workloads.words(&name, "another"), None);
        assert!(workloads.forget(&name, &workload("2", "")));
        assert_eq!(workloads.words(&name, "j"), None);
    }
}
