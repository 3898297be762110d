//! The API over HTTP.

use crate::broker::broker_that;
use crate::instance::{INVALID, Instance};
use crate::server::{self, Answer, Background, PATIENCE, Place, TOKEN, bearer, program, served};
use flux_contract::{Exit, ServedInstance, ServedTokens};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// The id of a job about which Flux answers `EINVAL`.
const REFUSED: u64 = 1 << 60;
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

/// A server, its broker, and the requests to that.
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) process: Background,
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    pub(crate) instance: Arc<Instance>,
}

impl Server {
    /// Job 1 runs, and job 2 has ended.
    pub(crate) fn start() -> Self {
        let (place, asked) = (Place::new(), Arc::new(Mutex::new(Vec::new())));
        let instance = Arc::new(Instance::new(false, |number| number + 1));
        let (record, broker) = (Arc::clone(&asked), Arc::clone(&instance));
        broker_that(place.at("broker"), move |topic, payload| {
            let asked: Value = serde_json::from_str(payload).unwrap_or_default();
            let is_refused = asked["id"] == REFUSED;
            let answer = if is_refused { Err(INVALID) } else { broker.answer(topic, payload) };
            record.lock().unwrap().push(format!("{topic} {payload}"));
            answer
        });
        let (process, address) = served(&place.instance());
        let server = Self { place, process, address, asked, instance };
        for (id, rank) in [(1, 1), (2, 0)] {
            server.call("POST /api/v1/jobs", JSON, r#"{"command":["a"]}"#);
            server.instance.run(id, &[rank]);
        }
        server.instance.print(2, 0, "stdout", "one\n");
        server.instance.print(2, 0, "stderr", "two\n");
        server.instance.end(2, 0);
        server.instance.drain(0, "bad fan");
        server.forget();
        server
    }

    pub(crate) fn begin(&self, text: &str) -> TcpStream {
        server::begin(self.address, text).unwrap()
    }

    /// In HTTP/1.0 an answer has no chunks.
    pub(crate) fn ask(&self, request: &str, head: &str, body: &str) -> Answer {
        server::ask(self.address, &format!("{request} HTTP/1.0"), head, body).unwrap()
    }

    /// The same of somebody who has the token.
    pub(crate) fn call(&self, request: &str, head: &str, body: &str) -> Answer {
        self.ask(request, &format!("{}{head}", bearer(TOKEN)), body)
    }

    /// Refuses each of these requests with this status, and says why.
    pub(crate) fn refuses(&self, requests: &[(&str, &str, u16)]) {
        for (request, body, status) in requests {
            let answer = self.call(request, JSON, body);
            assert_eq!(answer.status, *status, "{request}: {}", answer.body);
            let document = answer.json();
            assert!(document["detail"].is_string() && document["error"].is_string(), "{document}");
        }
    }

    /// The events that somebody with this token gets, who stays.
    pub(crate) fn listen(&self, token: &str) -> BufReader<TcpStream> {
        let request =
            format!("GET /api/v1/events HTTP/1.1\r\nHost: hello\r\n{}\r\n", bearer(token));
        BufReader::new(self.begin(&request))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), "", "")
    }

    fn get_events(&self, path: &str) -> String {
        let answer = self.call(&format!("GET {path}"), "Accept: text/event-stream\r\n", "");
        assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
        answer.body
    }

    /// Forgets what the broker was asked.
    pub(crate) fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }

    pub(crate) fn was_asked(&self, text: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// A request with another method for each path of the document, from which the server takes the parameters.
#[test]
fn the_document_has_every_method() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    for (path, calls) in document["paths"].as_object().unwrap() {
        let refused = server.call(&format!("PATCH {}", path.replace("{id}", "f2")), "", "");
        assert_eq!(refused.status, 405, "{path}");
        let (_, allowed) = refused.head.split_once("allow: ").unwrap();
        let allowed: BTreeSet<_> = allowed.lines().next().unwrap().split(',').collect();
        let known = calls.as_object().unwrap().keys().filter(|name| *name != "parameters");
        // A router that knows GET knows HEAD.
        let head = calls.get("get").map(|_| "head");
        assert_eq!(allowed, known.map(String::as_str).chain(head).collect(), "{path}");
    }
}

#[test]
fn a_job_is_submitted_found_and_cancelled() {
    let server = Server::start();
    let submitted = server.call("POST /api/v1/jobs", JSON, r#"{"command":["true"]}"#);
    assert_eq!((submitted.status, submitted.json()), (201, json!({ "id": "f4" })));
    assert!(submitted.head.contains("location: /api/v1/jobs/f4"), "{}", submitted.head);
    assert!(server.was_asked(r#"job-ingest.submit {"J":"#) && server.was_asked(r#""flags":8"#));
    let runs = server.get("/api/v1/jobs/f2");
    assert!(runs.status == 200 && runs.head.contains("retry-after: 1"), "{}", runs.head);
    assert_eq!(runs.at(["/state", "/result"]), json!(["RUN", null]));
    for id in ["%C6%923", "2", "0000.0000.0000.0002", "job.0000.0000.0000.0002"] {
        assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).json()["id"], "f3", "{id}");
    }
    let ended = server.get("/api/v1/jobs/0x2");
    assert!(!ended.head.contains("retry-after"), "{}", ended.head);
    assert_eq!(ended.at(["/result", "/returncode"]), json!(["COMPLETED", 0]));
    let cancelled = server.call("DELETE /api/v1/jobs/f2?reason=too%20slow", "", "");
    let document = json!({ "id": "f2", "status": "cancel requested" });
    assert_eq!((cancelled.status, cancelled.json()), (202, document));
    assert!(server.was_asked(r#""note":"too slow""#));
    server.refuses(&[
        ("DELETE /api/v1/jobs/f3", "", 409),
        ("DELETE /api/v1/jobs/f9", "", 404),
        ("GET /api/v1/jobs/f9", "", 404),
        ("GET /api/v1/jobs/f9/output", "", 404),
        ("GET /api/v1/jobs/f9/events", "", 404),
        (&format!("GET /api/v1/jobs/{REFUSED}"), "", 400),
        ("GET /api/v1/jobs/x", "", 404),
        ("GET /api/v1/jobs/%ff", "", 404),
        ("GET /api/v1/jobs/", "", 404),
        ("GET /api/v1/jobs/18446744073709551615", "", 404),
        ("GET /api/v1/jobs/f1/x", "", 404),
        ("GET /api/v2/jobs", "", 404),
        ("GET *", "", 404),
        ("GET /api/v1/jobs?limit=0", "", 400),
        ("PUT /api/v1/jobs", "", 405),
        ("POST /api/v1/jobs", "{}", 400),
        ("POST /api/v1/jobs", &" ".repeat(10 << 20), 413),
    ]);
    assert_eq!(server.call("POST /api/v1/jobs", "", "{}").status, 415);
}

#[test]
fn the_instance_its_ranks_and_its_jobs_are_shown() {
    let server = Server::start();
    for (path, pointers, expected) in [
        ("", ["/name", "/broker_version"], json!(["hello", "0.88.0"])),
        ("jobs", ["/jobs/0/id", "/jobs/1/id"], json!(["f2", "f3"])),
        ("jobs", ["/jobs/2", "/cursor"], json!([null, null])),
        ("resources", ["/ranks/0/drained", "/ranks/0/hostname"], json!(["bad fan", "hello-0"])),
        ("resources", ["/ranks/1/cores_allocated", "/ranks/1/jobs"], json!([4, ["f2"]])),
        ("instance", ["/state", "/up"], json!(["run", 4])),
        ("instance", ["/state", "/size"], json!(["run", 4])),
    ] {
        assert_eq!(server.get(&format!("/api/v1/{path}")).at(pointers), expected, "{path}");
    }
    let first = server.get("/api/v1/jobs?limit=1").json();
    let next = format!("/api/v1/jobs?limit=1&cursor={}", first["cursor"].as_str().unwrap());
    assert_eq!(server.get(&next).json()["jobs"][0]["id"], "f3");
    let metrics = server.get("/metrics");
    assert!(metrics.head.contains("application/openmetrics-text"), "{}", metrics.head);
    assert!(metrics.body.contains("flux_cores{state=\"drained\"} 4\n"), "{}", metrics.body);
}

#[test]
fn output_and_events_are_there_whole_and_as_streams() {
    let server = Server::start();
    assert_eq!(server.get("/api/v1/jobs/f3/output").body, "one\ntwo\n");
    assert_eq!(server.get("/api/v1/jobs/f3/output?stream=stderr").body, "two\n");
    assert_eq!(server.get("/api/v1/jobs/f3/output?stream=x").status, 400);
    assert_eq!(server.get("/api/v1/jobs/f3/events").json()["events"][5]["name"], "start");
    let output = server.get_events("/api/v1/jobs/f3/output");
    let data = r#"data: {"data":"one\n","rank":"0","stream":"stdout"}"#;
    assert!(output.starts_with(": connected\n\n"), "{output}");
    assert!(output.contains(&format!("event: output\n{data}\n\n")), "{output}");
    let errors = server.get_events("/api/v1/jobs/f3/output?stream=stderr");
    assert!(errors.contains("two") && !errors.contains("one"), "{errors}");
    let (_, end) = output.split_once("event: end\ndata: ").unwrap();
    assert_eq!(serde_json::from_str::<Value>(end).unwrap()["state"], "INACTIVE");
    let events = server.get_events("/api/v1/jobs/f3/events");
    assert!(events.contains("event: end\n"), "{events}");
    assert_eq!(events.matches("event: event\n").count(), 10);
}

#[test]
fn every_change_is_an_event() {
    let server = Server::start();
    let mut lines = server.listen(TOKEN).lines().map(Result::unwrap);
    let began = Instant::now();
    let mut await_all = |mut missing: Vec<(&str, &str)>| {
        let mut event = String::new();
        while !missing.is_empty() {
            assert!(began.elapsed() < PATIENCE, "{missing:?}");
            let line = lines.next().unwrap();
            missing.retain(|(name, data)| event != *name || !line.contains(data));
            event = line;
        }
    };
    await_all(vec![
        ("event: resources", r#""drained":"bad fan""#),
        ("event: instance", r#""state":"run""#),
    ]);
    while !server.was_asked("events-journal") && began.elapsed() < PATIENCE {
        park_timeout(Duration::from_millis(10));
    }
    server.instance.end(1, 0);
    await_all(vec![("event: jobs", r#""id":"f2""#)]);
    // The state that the job has reached is waited for.
    assert!(server.was_asked(r#""state":64}"#));
}

#[test]
fn idle_clients_keep_no_other_client_out() {
    let server = Server::start();
    let silent: Vec<_> = (0..200).map(|_| server.begin("")).collect();
    let bodiless = "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 9\r\n\r\n";
    let halves: Vec<_> = (0..40).map(|_| server.begin(bodiless)).collect();
    let listeners: Vec<_> = (0..8).map(|_| server.listen(TOKEN)).collect();
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get("/api/v1/jobs/f2").status, 200);
    }
    // Nobody's time had to run out first.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop((silent, halves, listeners));
    let mut stream = server.begin(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(20 << 10)));
    let mut refused = [0; 10];
    stream.read_exact(&mut refused).unwrap();
    assert_eq!(&refused, b"HTTP/1.1 4", "a head without end");
}

#[test]
fn without_an_instance_or_a_broker_nothing_is_served() {
    let place = Place::new();
    let unencrypted = ServedInstance { tls: Some(place.at("none")), ..place.instance() };
    let unconfigured =
        ServedInstance { tokens: ServedTokens::Config(place.at("none")), ..place.instance() };
    let mut without = Command::new(env!("CARGO_BIN_EXE_flux-rest"));
    for (command, exit, text) in [
        (&mut without, Exit::Usage, "by `flux-agent serve`"),
        (&mut program(&place.instance()), Exit::Broker, "connect to the broker as its user: "),
        (&mut program(&unencrypted), Exit::Config, "read "),
        (&mut program(&unconfigured), Exit::Config, "the tokens of the API in "),
    ] {
        let ended = command.output().unwrap();
        let log = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(exit.code().into()), "{log}");
        assert!(log.starts_with("flux-rest: ") && log.contains(text), "{log}");
    }
}

#[test]
fn the_server_survives_its_broker() {
    let mut server = Server::start();
    fs::remove_file(server.place.at("broker")).unwrap();
    let away = server.get("/api/v1/instance");
    assert_eq!(away.status, 503, "{}", away.body);
    assert!(away.head.contains("retry-after: 1") && away.body.contains("socket"), "{}", away.body);
    assert_eq!(server.ask("GET /health", "", "").status, 200);
    assert!(server.process.0.try_wait().unwrap().is_none(), "it still runs");
}
