//! What the queue of an instance needs, as the lead's agent counts it and tells the operator.

use crate::pod::broker::{NO_SERVICE, broker_that, state_text};
use crate::pod::{PATIENCE, Pod, await_that};
use flux_agent::status::{ReadinessServer, StatusReport};
use flux_contract::Autoscale;
use flux_contract::demand::{Demand, Question};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

fn demand(pod: &Pod) -> Option<Value> {
    let answer = pod.ask("status", &["--output", "json"]);
    let status: Value = serde_json::from_str(&answer.output).ok()?;
    status.get("demand").cloned()
}

#[test]
fn a_lead_counts_the_pods_that_its_queue_needs() {
    let pod = Pod::new();
    let waits = Arc::new(AtomicBool::new(false));
    let (up, queue) = (pod.at("up"), Arc::clone(&waits));
    broker_that(&pod.layout().local_socket(), move |topic, asked| {
        let ranks = |ids: &str| json!({ "rank": ids, "children": { "core": "0-1" } });
        // Frames of this stand-in are short.
        let answer = match topic {
            "state-machine.get" if up.exists() => return Ok(state_text("run")),
            "state-machine.get" => return Ok(state_text("init")),
            "resource.sched-status" => json!({
                "all": { "execution": { "R_lite": [ranks("0-7")] } },
                "allocated": { "execution": { "R_lite": [ranks("0")] } },
            }),
            "job-list.list" => {
                assert!(asked.contains(r#""states":["sched"]"#), "{asked}");
                let waiting = if queue.load(Ordering::SeqCst) { 8 } else { 16 };
                json!({ "jobs": [
                    { "id": 1, "state": waiting, "nnodes": 2, "ntasks": 2 },
                    { "id": 2, "state": 8, "nnodes": 3, "ntasks": 3, "priority": 0 },
                    { "id": 3, "state": 8, "nnodes": 6, "ntasks": 6 },
                ] })
            }
            "resource.status" => json!({}),
            _ => return Err(NO_SERVICE),
        };
        Ok(answer.to_string())
    });
    let mut config = pod.launcher("while [ ! -e $POD/done ]; do sleep 0.02; done");
    config.autoscale = Some(Autoscale { max_size: 5, idle_seconds: 3600 });
    let run = pod.start(&config);
    await_that("it counts the job that runs", || demand(&pod) == Some(json!({ "wanted": 1 })));
    waits.store(true, Ordering::SeqCst);
    await_that("and the one that waits", || demand(&pod) == Some(json!({ "wanted": 3 })));
    std::fs::write(pod.at("done"), "").unwrap();
    run.end().with_code(0);
}

/// The port of an agent that says this of its run.
struct Agent {
    port: u16,
    reports: watch::Sender<StatusReport>,
}

impl Agent {
    fn new() -> Self {
        let (reports, receiver) = watch::channel(StatusReport::default());
        let server = ReadinessServer::bind(0).unwrap();
        let port = server.port().unwrap();
        tokio::spawn(server.serve(receiver));
        Self { port, reports }
    }

    fn wants(&self, demand: Option<Demand>) {
        self.reports.send_modify(|report| report.demand = demand);
    }

    /// Status line and body of the answer.
    async fn asks(&self, request: &str) -> JoinHandle<(String, String)> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\nHost: pod\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        tokio::spawn(async move {
            let mut answer = String::new();
            timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
        })
    }

    async fn answer(&self, request: &str) -> (String, String) {
        self.asks(request).await.await.unwrap()
    }
}

#[tokio::test]
async fn who_asks_what_the_queue_needs_is_answered_once_that_is_known() {
    let agent = Agent::new();
    let demand = Demand { wanted: 3, kept: Some(4) };
    let (line, body) = agent.answer("GET /demand?wait=0").await;
    assert_eq!((line.as_str(), body.as_str()), ("HTTP/1.1 503 Service Unavailable", ""));
    agent.wants(Some(demand));
    let (line, body) = agent.answer("GET /demand?wait=0").await;
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert_eq!(serde_json::from_str::<Demand>(&body).unwrap(), demand);
    for (request, code) in
        [("POST /demand?wait=0", 405), ("GET /demand", 400), ("GET /demand?wait=x", 400)]
    {
        let (line, body) = agent.answer(request).await;
        assert!(line.starts_with(&format!("HTTP/1.1 {code} ")), "{request}: {line}");
        assert_eq!(body, "", "{request}");
    }
}

#[tokio::test]
async fn an_answer_comes_when_it_is_another_or_when_nothing_more_will_change() {
    let agent = Agent::new();
    let (first, second) = (Demand { wanted: 1, kept: None }, Demand { wanted: 2, kept: None });
    let ask = |seen| Question { wait_seconds: 60, seen };
    let waiting = agent.asks(&format!("GET {}", ask(None))).await;
    agent.wants(Some(first));
    assert!(waiting.await.unwrap().1.contains('1'));
    let waiting = agent.asks(&format!("GET {}", ask(Some(first)))).await;
    agent.wants(None);
    agent.wants(Some(second));
    assert!(waiting.await.unwrap().1.contains('2'));
    let waiting = agent.asks(&format!("GET {}", ask(Some(second)))).await;
    agent.wants(None);
    agent.reports.send_modify(|report| report.over = true);
    assert!(waiting.await.unwrap().0.starts_with("HTTP/1.1 503 "));
}
