//! The port at which the kubelet and the operator ask: real connections, as these make them and as they do not.

use crate::prelude::*;
use flux_agent::status::{ReadinessServer, StatusReport};
use flux_contract::demand::{Demand, Question};
use flux_contract::obstacle::{Obstacle, ObstacleCause};
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

struct Agent {
    port: u16,
    reports: watch::Sender<StatusReport>,
    open: watch::Receiver<u32>,
}

fn report(ready: bool) -> StatusReport {
    StatusReport { ready, ..StatusReport::default() }
}

/// An agent whose report is `ready`, and what is to be served.
fn bound(ready: bool) -> (Agent, impl Future<Output = ()>) {
    let (reports, receiver) = watch::channel(report(ready));
    let server = ReadinessServer::bind(0).unwrap();
    let (port, open) = (server.port().unwrap(), server.open());
    (Agent { port, reports, open }, server.serve(receiver))
}

fn agent(ready: bool) -> Agent {
    let (agent, served) = bound(ready);
    tokio::spawn(served);
    agent
}

impl Agent {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap()
    }

    /// Asks in the words of the kubelet's HTTP client, and reads until the connection is closed: status line and body.
    async fn asks(&self, request: &str) -> JoinHandle<(String, String)> {
        let mut stream = self.connect().await;
        let request = format!(
            "{request} HTTP/1.1\r\nHost: pod:{}\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.port
        );
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

    fn wants(&self, demand: Option<Demand>) {
        self.reports.send_modify(|report| report.demand = demand);
    }

    async fn until_open(&mut self, connections: u32) {
        let open = self.open.wait_for(|open| *open == connections);
        timeout(PATIENCE, open).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_answer_comes_when_it_is_settled() {
    for (settled, line) in [
        (report(true), "HTTP/1.1 200 OK"),
        (StatusReport { over: true, ..report(false) }, "HTTP/1.1 503 Service Unavailable"),
    ] {
        let mut agent = agent(false);
        let waiting = agent.asks("GET /ready?wait=1800").await;
        // Others are answered meanwhile.
        for request in ["GET /ready", "GET /ready?wait=0"] {
            let line = agent.answer(request).await.0;
            assert_eq!(line, "HTTP/1.1 503 Service Unavailable", "{request}");
        }
        agent.until_open(1).await;
        assert!(!waiting.is_finished());
        agent.reports.send_replace(settled);
        assert_eq!(waiting.await.unwrap().0, line);
        agent.until_open(0).await;
    }
}

#[tokio::test]
async fn who_asks_while_the_run_is_still_being_read_gets_the_answer_later() {
    let (agent, served) = bound(true);
    let early = agent.asks("GET /ready").await;
    tokio::spawn(served);
    assert_eq!(early.await.unwrap().0, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn nothing_else_is_to_be_learned() {
    let agent = agent(true);
    for (request, code) in [
        ("GET /", 404),
        ("GET /ready/..", 404),
        ("POST /ready", 405),
        ("GET /ready?wait=", 400),
        ("GET /ready?wait=-1", 400),
        ("GET /ready?patience=3", 400),
        ("POST /demand?wait=0", 405),
        ("GET /demand", 400),
        ("GET /demand?wait=x", 400),
        ("POST /obstacle", 405),
        ("GET /obstacle", 204),
    ] {
        let (line, body) = agent.answer(request).await;
        assert!(line.starts_with(&format!("HTTP/1.1 {code} ")), "{request}: {line}");
        assert_eq!(body, "", "{request}");
    }
}

#[tokio::test]
async fn a_probe_that_is_given_up_makes_room() {
    let mut agent = agent(false);
    let mut gone = agent.connect().await;
    gone.write_all(b"GET /ready?wait=1800 HTTP/1.1\r\nHost: pod\r\n\r\n").await.unwrap();
    agent.until_open(1).await;
    drop(gone);
    agent.until_open(0).await;
}

#[tokio::test]
async fn both_kinds_of_addresses_are_served_where_there_are_both() {
    let agent = agent(false);
    let six = TcpStream::connect((Ipv6Addr::LOCALHOST, agent.port)).await;
    assert!(six.is_ok() || std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err());
    drop(agent.connect().await);
    assert!(ReadinessServer::bind(agent.port).is_err(), "the port is taken");
}

#[tokio::test]
async fn who_asks_what_the_queue_needs_is_answered_once_that_is_known() {
    let agent = agent(false);
    let demand = Demand { wanted: 3, kept: Some(4) };
    let (line, body) = agent.answer("GET /demand?wait=0").await;
    assert_eq!((line.as_str(), body.as_str()), ("HTTP/1.1 503 Service Unavailable", ""));
    agent.wants(Some(demand));
    let (line, body) = agent.answer("GET /demand?wait=0").await;
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert_eq!(serde_json::from_str::<Demand>(&body).unwrap(), demand);
}

#[tokio::test]
async fn who_asks_learns_what_keeps_the_broker_from_its_lead() {
    let agent = agent(false);
    let obstacle = Obstacle { cause: ObstacleCause::Port, message: "refused".to_owned() };
    agent.reports.send_modify(|report| report.obstacle = Some(obstacle.clone()));
    let (line, body) = agent.answer("GET /obstacle").await;
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert_eq!(serde_json::from_str::<Obstacle>(&body).unwrap(), obstacle);
}

#[tokio::test]
async fn an_answer_comes_when_it_is_another_or_when_nothing_more_will_change() {
    let agent = agent(false);
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
