//! What the queues of MiniClusters that are sized by demand need: the operator asks their leads, by a question that is
//! answered when there is news (docs/design/demand.md). There is one such question at a time for each lead.

use super::mini_cluster_cache::Name;
use super::stores::MiniClusterMeta;
use anyhow::{Context as _, Result, ensure};
use flux_contract::demand::{Demand, Question};
use flux_contract::invocation::READY_PORT;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a lead may take to have news. Then it is asked again, so that one that is gone is noticed.
const WAIT: Duration = Duration::from_mins(1);
/// How long all else of a question may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two questions to a lead, whatever it answers.
const PAUSE: Duration = Duration::from_millis(250);
/// The same after a failure; it doubles up to the second number.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Bytes of an answer that are read.
const ANSWER_LIMIT: usize = 1024;

/// What a lead has answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is not asked, or has not answered yet.
    #[default]
    None,
    Demand(Demand),
    /// It does not answer: why.
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

/// The pod that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lead {
    uid: String,
    address: IpAddr,
}

struct Asked {
    lead: Lead,
    answer: Answer,
    /// Ends when this is dropped.
    _questions: JoinSet<()>,
}

/// The leads that are asked, and what they have answered.
pub(crate) struct Demands {
    asked: Mutex<HashMap<Name, Asked>>,
    /// The MiniClusters that there are, once they are watched.
    clusters: OnceLock<Store<MiniClusterMeta>>,
    news: UnboundedSender<Name>,
    heard: Mutex<Option<UnboundedReceiver<Name>>>,
}

impl Default for Demands {
    fn default() -> Self {
        let (news, heard) = unbounded();
        Self {
            asked: Mutex::default(),
            clusters: OnceLock::new(),
            news,
            heard: Mutex::new(Some(heard)),
        }
    }
}

impl Demands {
    /// What the lead of `cluster` has answered last. From now on it is asked, and nobody where there is no lead to ask.
    pub(crate) fn answer(self: &Arc<Self>, cluster: &Name, lead: Option<&Pod>) -> Answer {
        let mut asked = self.asked.lock();
        let Some(lead) = lead.and_then(lead_of) else {
            asked.remove(cluster);
            return Answer::None;
        };
        if let Some(found) = asked.get(cluster).filter(|asked| asked.lead == lead) {
            return found.answer.clone();
        }
        let mut questions = JoinSet::new();
        let (demands, name, pod) = (Arc::clone(self), cluster.clone(), lead.clone());
        questions.spawn(async move { demands.keep_asking(&name, &pod).await });
        let new = Asked { lead, answer: Answer::None, _questions: questions };
        asked.insert(cluster.clone(), new);
        Answer::None
    }

    async fn keep_asking(&self, cluster: &Name, lead: &Lead) {
        let address = SocketAddr::new(lead.address, READY_PORT);
        let (mut seen, mut retry) = (None, RETRY.0);
        loop {
            let asked = ask(address, seen).await;
            seen = asked.as_ref().ok().copied();
            let pause = if seen.is_some() { PAUSE } else { retry };
            retry = if seen.is_some() { RETRY.0 } else { RETRY.1.min(retry * 2) };
            let failed = |error: anyhow::Error| Answer::Failed(format!("{address}: {error:#}"));
            if !self.note(cluster, lead, &asked.map_or_else(failed, Answer::Demand)) {
                return;
            }
            sleep(pause).await;
        }
    }

    /// Keeps what `lead` has answered. False when it need not be asked any more.
    fn note(&self, cluster: &Name, lead: &Lead, answer: &Answer) -> bool {
        let (namespace, name) = cluster;
        let is_there = |store: &Store<MiniClusterMeta>| {
            store.get(&ObjectRef::new(name).within(namespace)).is_some()
        };
        let mut asked = self.asked.lock();
        if !self.clusters.get().is_none_or(is_there) {
            asked.remove(cluster);
            return false;
        }
        let Some(kept) = asked.get_mut(cluster).filter(|asked| asked.lead == *lead) else {
            return false;
        };
        if kept.answer != *answer {
            kept.answer.clone_from(answer);
            // Nobody hears it where nothing is reconciled.
            let _ = self.news.unbounded_send(cluster.clone());
        }
        true
    }

    /// The MiniClusters whose leads answer something new, of those in `clusters`. It is asked for once.
    pub(crate) fn changes(
        &self,
        clusters: Store<MiniClusterMeta>,
    ) -> impl Stream<Item = ObjectRef<MiniClusterMeta>> + Send + use<> {
        let _ = self.clusters.set(clusters);
        let heard = self.heard.lock().take();
        stream::iter(heard)
            .flatten()
            .map(|(namespace, name)| ObjectRef::new(&name).within(&namespace))
    }
}

fn lead_of(pod: &Pod) -> Option<Lead> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(Lead { uid: pod.uid()?, address })
}

/// Asks the agent at `address` for a demand that is another than `seen`.
async fn ask(address: SocketAddr, seen: Option<Demand>) -> Result<Demand> {
    let connected = timeout(PATIENCE, TcpStream::connect(address)).await;
    let stream = connected.context("it does not accept a connection")?.context("connect")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let question = Question { wait_seconds: WAIT.as_secs(), seen };
    let request = Request::get(question.to_string())
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new())?;
    let asked = async { demand_in(sender.send_request(request).await?).await };
    let answered = async {
        tokio::select! {
            answer = asked => answer,
            Err(error) = connection => Err(error).context("talk to it"),
        }
    };
    timeout(WAIT + PATIENCE, answered).await.context("it gives no answer")?
}

async fn demand_in(answer: Response<Incoming>) -> Result<Demand> {
    let code = answer.status();
    // What there is to do about it.
    let refused = match code {
        StatusCode::SERVICE_UNAVAILABLE => "the instance does not say what its queue needs",
        _ => "it does not tell what its queue needs",
    };
    ensure!(code == StatusCode::OK, "{refused} ({code})");
    let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("read the answer: {error}"))?;
    serde_json::from_slice(&body.to_bytes()).context("it answers something else than a demand")
}
