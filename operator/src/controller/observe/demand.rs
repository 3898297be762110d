//! Asks the leads of MiniClusters with `autoscale` how many pods their queues need: one long poll at a time for each
//! lead, which the lead answers when the demand changes (docs/design/demand.md).

use super::agent_port::{address_of, ask};
use super::mini_cluster_cache::NamespacedName;
use super::stores::MiniClusterMeta;
use anyhow::{Context as _, Result, ensure};
use flux_contract::demand::{Demand, Question};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt as _, stream};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Longest time of a poll. Then the operator starts another one, so that it notices a lead that is gone.
const POLL_TIME: Duration = Duration::from_mins(1);
/// Timeout for a response after [`POLL_TIME`].
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two polls of a lead.
const POLL_PAUSE: Duration = Duration::from_millis(250);
/// Time to the next poll after a failure: the first value, doubled up to the second.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lead is not polled, or has not answered yet.
    #[default]
    None,
    Demand(Demand),
    /// The poll failed, with the reason.
    Failed(String),
}

impl Answer {
    pub(crate) const fn demand(&self) -> Option<Demand> {
        match self {
            Self::Demand(demand) => Some(*demand),
            Self::None | Self::Failed(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lead {
    uid: String,
    address: SocketAddr,
}

struct PolledLead {
    lead: Lead,
    answer: Answer,
    /// The task that polls; it ends when this is dropped.
    _poll: JoinSet<()>,
}

/// The leads that are polled, and their answers.
pub(crate) struct Demands {
    polled: Mutex<HashMap<NamespacedName, PolledLead>>,
    /// The existing MiniClusters, once they are watched.
    clusters: OnceLock<Store<MiniClusterMeta>>,
    changes_tx: UnboundedSender<NamespacedName>,
    changes_rx: Mutex<Option<UnboundedReceiver<NamespacedName>>>,
}

impl Default for Demands {
    fn default() -> Self {
        let (changes_tx, changes_rx) = unbounded();
        Self {
            polled: Mutex::default(),
            clusters: OnceLock::new(),
            changes_tx,
            changes_rx: Mutex::new(Some(changes_rx)),
        }
    }
}

impl Demands {
    /// The last answer of `lead`.
    pub(crate) fn answer(&self, key: &NamespacedName, lead: Option<&Pod>) -> Answer {
        let lead = lead.and_then(lead_of);
        let polled = self.polled.lock();
        let found = polled.get(key).filter(|polled| Some(&polled.lead) == lead.as_ref());
        found.map(|polled| polled.answer.clone()).unwrap_or_default()
    }

    /// Starts to poll `lead`, if it is not polled. Without a lead, stops to poll for the MiniCluster `key`.
    pub(crate) fn poll(self: &Arc<Self>, key: &NamespacedName, lead: Option<&Pod>) {
        let mut polled = self.polled.lock();
        let Some(lead) = lead.and_then(lead_of) else {
            polled.remove(key);
            return;
        };
        if polled.get(key).is_some_and(|polled| polled.lead == lead) {
            return;
        }
        let mut poll_task = JoinSet::new();
        let (demands, name, pod) = (Arc::clone(self), key.clone(), lead.clone());
        poll_task.spawn(async move { demands.poll_lead(&name, &pod).await });
        let new = PolledLead { lead, answer: Answer::None, _poll: poll_task };
        polled.insert(key.clone(), new);
    }

    async fn poll_lead(&self, key: &NamespacedName, lead: &Lead) {
        let address = lead.address;
        let (mut seen, mut retry) = (None, RETRY_PAUSE.0);
        loop {
            let polled = request_demand(address, seen).await;
            seen = polled.as_ref().ok().copied();
            let pause = if seen.is_some() { POLL_PAUSE } else { retry };
            retry = if seen.is_some() { RETRY_PAUSE.0 } else { RETRY_PAUSE.1.min(retry * 2) };
            let failed = |error: anyhow::Error| Answer::Failed(format!("{address}: {error:#}"));
            if !self.store_answer(key, lead, &polled.map_or_else(failed, Answer::Demand)) {
                return;
            }
            sleep(pause).await;
        }
    }

    /// Stores the answer of `lead`. False when it need not be polled any more.
    fn store_answer(&self, key: &NamespacedName, lead: &Lead, answer: &Answer) -> bool {
        let (namespace, name) = key;
        let is_there = |store: &Store<MiniClusterMeta>| {
            store.get(&ObjectRef::new(name).within(namespace)).is_some()
        };
        let mut polled = self.polled.lock();
        if !self.clusters.get().is_none_or(is_there) {
            polled.remove(key);
            return false;
        }
        let Some(current) = polled.get_mut(key).filter(|polled| polled.lead == *lead) else {
            return false;
        };
        if current.answer != *answer {
            current.answer.clone_from(answer);
            // The send fails only if no controller runs.
            let _ = self.changes_tx.unbounded_send(key.clone());
        }
        true
    }

    /// A stream of the MiniClusters in `clusters` whose demand has changed. Only the first call returns changes.
    pub(crate) fn changes(
        &self,
        clusters: Store<MiniClusterMeta>,
    ) -> impl Stream<Item = ObjectRef<MiniClusterMeta>> + Send + use<> {
        let _ = self.clusters.set(clusters);
        let changes_rx = self.changes_rx.lock().take();
        stream::iter(changes_rx)
            .flatten()
            .map(|(namespace, name)| ObjectRef::new(&name).within(&namespace))
    }
}

fn lead_of(pod: &Pod) -> Option<Lead> {
    Some(Lead { uid: pod.uid()?, address: address_of(pod)? })
}

/// Polls the agent at `address` for a demand that differs from `seen`.
async fn request_demand(address: SocketAddr, seen: Option<Demand>) -> Result<Demand> {
    let question = Question { wait_seconds: POLL_TIME.as_secs(), seen };
    let asked = ask(address, &question.to_string(), POLL_TIME + RESPONSE_TIMEOUT).await;
    let (code, body) = asked?;
    let error = match code {
        StatusCode::SERVICE_UNAVAILABLE => "the Flux instance does not report what its queue needs",
        _ => "the agent does not report what its queue needs",
    };
    ensure!(code == StatusCode::OK, "{error} ({code})");
    serde_json::from_slice(&body).context("the response is no demand")
}
