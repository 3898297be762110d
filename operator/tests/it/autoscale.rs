//! Autoscaling: an operator, the simulated API server, and a lead that answers over a real connection.

use crate::prelude::*;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use flux_contract::demand::{Demand, Question};
use flux_contract::invocation::READY_PORT;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Time from the answer of a lead to the write of the Job.
const SOON: Duration = Duration::from_secs(1);

/// The answers of the lead.
#[derive(Clone)]
struct Lead {
    demand: watch::Sender<Option<Demand>>,
    asked: Arc<AtomicUsize>,
}

/// Answers as the agent does; at once if the demand is unknown.
async fn demanded(State(lead): State<Lead>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    lead.asked.fetch_add(1, Ordering::SeqCst);
    let Question { seen, .. } = Question::of_query(&query.unwrap()).unwrap();
    let mut demands = lead.demand.subscribe();
    // The sender exists.
    let demand = *demands.wait_for(|it| it.is_none() || *it != seen).await.unwrap();
    match demand {
        Some(demand) => (StatusCode::OK, serde_json::to_string(&demand).unwrap()),
        None => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
    }
}

impl Lead {
    fn wants(&self, wanted: u32, kept: Option<u32>) {
        self.demand.send_replace(Some(Demand { wanted, kept }));
    }
}

/// An operator that has made the Job of a MiniCluster, whose lead is ready.
struct Stage {
    server: Server,
    lead: Lead,
    address: Ipv4Addr,
    jobs: JobController,
    operator: JoinSet<()>,
}

/// A loopback address that no other lead has, in this process or another.
fn own_address() -> Ipv4Addr {
    static LEADS: AtomicU8 = AtomicU8::new(1);
    let [.., second, third] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, second, third, LEADS.fetch_add(1, Ordering::SeqCst))
}

impl Stage {
    async fn new(spec: &Value) -> Self {
        let server = role::server();
        server.deliver_all_except(&[]);
        let (demand, asked) = (watch::Sender::new(None), Arc::default());
        let lead = Lead { demand, asked };
        let address = own_address();
        let listener = TcpListener::bind((address, READY_PORT)).await.unwrap();
        let answers = Router::new().route(Question::PATH, get(demanded)).with_state(lead.clone());
        tokio::spawn(async move { axum::serve(listener, answers).await });
        let (jobs, operator) = (JobController::default(), JoinSet::new());
        let mut stage = Self { server, lead, address, jobs, operator };
        let mut object = serde_json::to_value(hello(spec)).unwrap();
        object["metadata"]["uid"] = Value::Null;
        stage.server.put(CLUSTER, object);
        stage.operate();
        until("the Job", || stage.server.get(JOB).is_some()).await;
        stage.make_pods();
        until("the lead", || !stage.server.paths(PODS).is_empty()).await;
        stage.make_ready();
        stage
    }

    /// Starts an operator that remembers nothing, in place of the one before.
    fn operate(&mut self) {
        let context = new_operator(&self.server, &Arc::default());
        self.operator = JoinSet::new();
        self.operator.spawn(control(Arc::new(context)));
    }

    fn make_pods(&mut self) {
        for _ in 0..2 {
            self.server.with(|memory| self.jobs.sync(&mut memory.store));
        }
    }

    fn make_ready(&self) {
        self.server.with(|memory| {
            for (path, pod) in memory.store.select(PODS, is_broker) {
                let mut ready = ready("hello");
                ready["podIP"] = json!(self.address_of(index_of(&pod)));
                memory.store.set_status(&path, ready);
            }
        });
    }

    /// Only the lead answers.
    fn address_of(&self, index: u64) -> Ipv4Addr {
        if index == 0 { self.address } else { Ipv4Addr::BROADCAST }
    }

    fn size(&self) -> u64 {
        self.server.get(JOB).unwrap()["spec"]["parallelism"].as_u64().unwrap()
    }

    async fn has_size(&self, size: u64) {
        until(&format!("size {size}"), || self.size() == size).await;
    }

    /// Status, reason and message of the condition.
    fn condition(&self) -> [String; 3] {
        let status = self.server.get(CLUSTER).unwrap()["status"].clone();
        let mut all = status["conditions"].as_array().into_iter().flatten();
        let found = all.find(|it| it["type"] == "Autoscaling").cloned().unwrap_or_default();
        ["status", "reason", "message"]
            .map(|key| found[key].as_str().unwrap_or_default().to_owned())
    }

    async fn has_reason(&self, reason: &str) {
        until(reason, || self.condition()[1] == reason).await;
    }
}

#[tokio::test]
async fn the_size_follows_the_demand_of_the_queue() {
    let stage =
        Stage::new(&json!({ "size": 2, "autoscale": { "minSize": 2, "maxSize": 6 } })).await;
    assert_eq!(
        agent_config(&stage.server).network.bootstrap.hosts().len(),
        6,
        "all are registered"
    );
    stage.has_reason("LeadNotAnswering").await;
    assert_eq!(stage.size(), 2, "nobody knows");
    stage.lead.wants(1, None);
    stage.has_reason("DemandKnown").await;
    let began = Instant::now();
    stage.lead.wants(5, None);
    stage.has_size(5).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    stage.lead.wants(9, None);
    stage.has_size(6).await;
    stage.lead.wants(1, Some(6));
    stage.lead.wants(3, Some(4));
    stage.has_size(4).await;
    stage.lead.wants(0, Some(0));
    stage.has_size(2).await;
    let job = stage.server.get(JOB).unwrap();
    assert_eq!(job["spec"]["completions"], 2);
    assert_eq!(stage.server.get(CLUSTER).unwrap()["spec"]["size"], 2, "the specification stays");
    until("its message", || {
        stage.condition()[2] == "jobs need 0 pods; the size is set to 2 (from 2 to 6)"
    })
    .await;
}

#[tokio::test]
async fn without_an_answer_of_the_lead_the_size_stays() {
    let stage = Stage::new(&json!({ "size": 1, "autoscale": { "maxSize": 4 } })).await;
    stage.lead.wants(3, None);
    stage.has_size(3).await;
    stage.lead.demand.send_replace(None);
    stage.has_reason("LeadNotAnswering").await;
    let [status, _, message] = stage.condition();
    assert_eq!(status, "False");
    let told = "the size stays 3: the lead does not report what its queue needs:";
    let told = format!("{told} {}:{READY_PORT}:", stage.address);
    assert!(message.starts_with(&told) && message.contains("503"), "{message}");
    assert_eq!(stage.size(), 3);
}

#[tokio::test]
async fn another_operator_keeps_the_configuration_and_warns_nobody() {
    let mut stage = Stage::new(&json!({ "size": 1, "autoscale": { "maxSize": 4 } })).await;
    stage.lead.wants(3, None);
    stage.has_size(3).await;
    stage.has_reason("DemandKnown").await;
    let asked = stage.lead.asked.load(Ordering::SeqCst);
    let (config, sent) = (agent_config(&stage.server), stage.server.bodies().len());
    stage.operate();
    until("its question", || stage.lead.asked.load(Ordering::SeqCst) > asked).await;
    assert_eq!(agent_config(&stage.server), config);
    stage.lead.wants(4, None);
    stage.has_size(4).await;
    stage.has_reason("DemandKnown").await;
    let bodies = stage.server.bodies().into_iter().skip(sent);
    let warnings = bodies.filter(|body| body["type"] == "Warning").map(|it| it["note"].clone());
    assert_eq!(warnings.collect::<Vec<_>>(), [json!(null); 0]);
}

#[tokio::test]
async fn who_is_not_sized_by_its_queue_is_not_asked() {
    let stage = Stage::new(&json!({ "size": 1, "maxSize": 4 })).await;
    stage.lead.wants(3, None);
    until("it runs", || stage.server.get(CLUSTER).unwrap()["status"]["state"] == "Running").await;
    assert_eq!(stage.condition(), [""; 3]);
    assert_eq!(stage.lead.asked.load(Ordering::SeqCst), 0, "nobody has asked");
    assert_eq!(stage.size(), 1);
}
