//! The API over HTTP.

use crate::broker::{STATE_OF_LEAD, broker_that};
use crate::server::{Background, PATIENCE, Place, TOKEN, program, served};
use flux_contract::{Exit, ServedInstance};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// `ENOENT`: what Flux answers about a job that it does not know.
const UNKNOWN: u8 = 2;
/// The id of a job that is submitted.
const SUBMITTED: u64 = 58;
/// The id of a job about which Flux answers `EINVAL`.
const INVALID: u64 = 9;

/// A server, its broker, and the requests to that.
pub(crate) struct Server {
    pub(crate) place: Place,
    process: Background,
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A set of resources (RFC 20).
fn set(rank: &str) -> Value {
    let hosts = json!([{ "rank": rank, "children": { "core": "0-1" } }]);
    json!({ "version": 1, "execution": { "R_lite": hosts } })
}

/// Job 1 runs, job 2 has ended, and job 58, which is submitted, waits. There are no others.
fn job(id: &Value) -> Result<Value, u8> {
    let state = match id.as_u64() {
        Some(1) => json!({ "state": 16, "t_run": 11.0, "ranks": "1", "nodelist": "b" }),
        Some(2) => {
            json!({ "state": 64, "t_inactive": 12.0, "result": 1, "waitstatus": 0, "success": true })
        }
        Some(SUBMITTED) => json!({ "state": 8 }),
        Some(INVALID) => return Err(22),
        _ => return Err(UNKNOWN),
    };
    let mut job =
        json!({ "id": id, "userid": 7, "urgency": 16, "t_submit": 10.0, "name": "a", "ntasks": 1 });
    job.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    Ok(job)
}

/// What is printed and happens, as flux-core 0.88 has it.
const OUTPUT: &str = r#"{"timestamp":1.5,"name":"data","context":{"stream":"stdout","rank":"0","data":"one\n"}}
{"timestamp":1.5,"name":"data","context":{"stream":"stderr","rank":"0","data":"two\n"}}"#;
const LOG: &str = r#"{"timestamp":1.5,"name":"submit","context":{"userid":7}}
{"timestamp":1.6,"name":"start"}"#;

/// Each entry of a log is an answer.
fn entries(log: &str) -> String {
    log.lines().map(|line| json!({ "event": line }).to_string()).collect::<Vec<_>>().join("\n")
}

fn answer(topic: &str, asked: &Value) -> Result<Value, u8> {
    let is = |what: &str, text: &str| asked[what] == text;
    Ok(match topic {
        "state-machine.get" | STATE_OF_LEAD => json!({ "state": "run" }),
        "groups.get" => json!({ "members": "0-1" }),
        "attr.get" if is("name", "hostlist") => json!({ "value": "a,b" }),
        "attr.get" if is("name", "version") => json!({ "value": "0.88.0" }),
        "attr.get" => json!({ "value": "2" }),
        "resource.sched-status" => json!({ "all": set("0-1"), "allocated": set("1") }),
        "resource.status" => json!({ "drain": { "0": { "reason": "bad fan" } }, "offline": "" }),
        "job-list.job-stats" => {
            json!({ "job_states": { "run": 1, "inactive": 1 }, "successful": 1 })
        }
        "job-list.list-id" => json!({ "job": job(&asked["id"])? }),
        "job-list.list" => {
            let active = asked["constraint"]["and"][0]["states"][0] != 64;
            json!({ "jobs": [job(&json!(if active { 1 } else { 2 }))?] })
        }
        "job-ingest.submit" => json!({ "id": SUBMITTED }),
        "job-manager.raise" if [1, SUBMITTED].iter().any(|id| asked["id"] == *id) => Value::Null,
        "job-info.lookup" if asked["id"] != 3 => json!({ "eventlog": LOG }),
        "job-manager.raise" | "job-info.lookup" => return Err(UNKNOWN),
        _ => return Err(38),
    })
}

impl Server {
    pub(crate) fn start() -> Self {
        let place = Place::new();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        broker_that(place.at("broker"), move |topic, payload| {
            record.lock().unwrap().push(format!("{topic} {payload}"));
            let payload: Value = serde_json::from_str(payload).unwrap_or_default();
            match topic {
                "job-info.eventlog-watch" if payload["path"] == "eventlog" => Ok(entries(LOG)),
                "job-info.eventlog-watch" => Ok(entries(OUTPUT)),
                "job-manager.events-journal" => {
                    let event = json!({ "id": 1, "events": [{ "name": "alloc" }] });
                    Ok(format!("{}\n{event}\n{event}", json!({ "id": -1, "events": [] })))
                }
                _ => answer(topic, &payload)
                    .map(|value| if value.is_null() { String::new() } else { value.to_string() }),
            }
        });
        let (process, address) = served(&place.instance());
        Self { place, process, address, asked }
    }

    /// A connection on which `text` was sent.
    fn begin(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// The answer to a request with these lines behind the first of its head; in HTTP/1.0 it has no chunks.
    fn ask(&self, request: &str, head: &str, body: &str) -> Answer {
        let length = body.len();
        let head =
            format!("{request} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n{head}\r\n");
        let mut stream = self.begin(&(head + body));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// The same of somebody who has the token.
    fn call(&self, request: &str, head: &str, body: &str) -> Answer {
        self.ask(request, &format!("Authorization: Bearer {TOKEN}\r\n{head}"), body)
    }

    fn get(&self, path: &str) -> Answer {
        self.call(&format!("GET {path}"), "", "")
    }

    fn get_events(&self, path: &str) -> String {
        let answer = self.call(&format!("GET {path}"), "Accept: text/event-stream\r\n", "");
        assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
        answer.body
    }

    fn was_asked(&self, text: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

#[test]
fn only_health_and_the_page_need_no_token() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|name| *name != "parameters") {
            let request = format!("{} {}", method.to_uppercase(), path.replace("{id}", "f2"));
            let is_open = path == "/" || path.ends_with("/health");
            for head in
                ["", "Authorization: Bearer 0123456789abcdeF\r\n", "Authorization: Basic x\r\n"]
            {
                let answer = server.ask(&request, head, "");
                assert_eq!(answer.status, if is_open { 200 } else { 401 }, "{request} {head}");
                assert!(is_open || answer.json()["path"] == path.replace("{id}", "f2"));
            }
        }
    }
    for (request, status) in [
        // Addresses are kept in more places than headers.
        (&*format!("GET /api/v1/jobs?token={TOKEN}"), 401),
        ("GET /elsewhere", 401),
        ("POST /health", 405),
    ] {
        assert_eq!(server.ask(request, "", "").status, status, "{request}");
    }
    let page = server.ask(&format!("GET /?token={TOKEN}"), "", "");
    for header in ["referrer-policy: no-referrer", "cache-control: no-store", "nosniff"] {
        assert!(page.head.contains(header), "{}", page.head);
    }
    assert!(!server.was_asked("job"), "{:?}", server.asked.lock().unwrap());
}

/// A request with another method, and one with an unknown parameter, for each path of the document.
#[test]
fn the_document_has_every_method_and_parameter() {
    let server = Server::start();
    let document = server.get("/api/v1/openapi.json").json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let known = methods.as_object().unwrap().iter();
        let known: Vec<_> = known.filter(|(name, _)| *name != "parameters").collect();
        let path = path.replace("{id}", "f2");
        let refused = server.call(&format!("PATCH {path}"), "", "");
        assert_eq!(refused.status, 405, "{path}");
        let (_, allowed) = refused.head.split_once("allow: ").unwrap();
        let allowed: BTreeSet<_> = allowed.lines().next().unwrap().split(',').collect();
        let names = known.iter().map(|(name, _)| name.as_str());
        // A router that knows GET knows HEAD.
        assert_eq!(allowed, names.chain(["head"]).collect(), "{path}");
        for (method, call) in known {
            let parameters = call["parameters"].as_array().into_iter().flatten();
            let queries = parameters.filter(|it| it["in"] == "query");
            let names: Vec<_> = queries.filter_map(|it| it["name"].as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let request = format!("{} {path}?x=1", method.to_uppercase());
            let detail = format!("x: not known (known are: {names})");
            assert_eq!(server.call(&request, "", "").json()["detail"], detail, "{request}");
        }
    }
}

#[test]
fn a_job_is_submitted_found_and_cancelled() {
    let server = Server::start();
    let json_type = "Content-Type: application/json\r\n";
    let submitted = server.call("POST /api/v1/jobs", json_type, r#"{"command":["true"]}"#);
    assert_eq!((submitted.status, &submitted.json()), (201, &json!({ "id": "f21" })));
    assert!(submitted.head.contains("location: /api/v1/jobs/f21"), "{}", submitted.head);
    assert!(server.was_asked(r#"job-ingest.submit {"J":"#) && server.was_asked(r#""flags":8"#));
    let runs = server.get("/api/v1/jobs/f2");
    assert!(runs.status == 200 && runs.head.contains("retry-after: 1"), "{}", runs.head);
    assert_eq!((&runs.json()["state"], &runs.json()["result"]), (&json!("RUN"), &Value::Null));
    for id in ["%C6%923", "2", "0000.0000.0000.0002", "job.0000.0000.0000.0002"] {
        assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).json()["id"], "f3", "{id}");
    }
    let ended = server.get("/api/v1/jobs/0x2");
    assert!(!ended.head.contains("retry-after"), "{}", ended.head);
    assert_eq!(
        (&ended.json()["result"], &ended.json()["returncode"]),
        (&json!("COMPLETED"), &json!(0))
    );
    let cancelled = server.call("DELETE /api/v1/jobs/f2?reason=too%20slow", "", "");
    assert_eq!(cancelled.status, 202);
    assert_eq!(cancelled.json(), json!({ "id": "f2", "status": "cancel requested" }));
    assert!(server.was_asked(r#""note":"too slow""#));
    for (request, body, status) in [
        ("DELETE /api/v1/jobs/f3", "", 409),
        ("DELETE /api/v1/jobs/f4", "", 404),
        ("GET /api/v1/jobs/f4", "", 404),
        ("GET /api/v1/jobs/f4/output", "", 404),
        ("GET /api/v1/jobs/f4/events", "", 404),
        ("GET /api/v1/jobs/9", "", 400),
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
    ] {
        let answer = server.call(request, json_type, body);
        assert_eq!(answer.status, status, "{request}: {}", answer.body);
        assert!(answer.json()["detail"].is_string() && answer.json()["error"].is_string());
    }
    assert_eq!(server.call("POST /api/v1/jobs", "", "{}").status, 415);
}

#[test]
fn the_instance_its_ranks_and_its_jobs_are_shown() {
    let server = Server::start();
    let about = server.get("/api/v1/").json();
    assert_eq!((&about["name"], &about["broker_version"]), (&json!("hello"), &json!("0.88.0")));
    let list = server.get("/api/v1/jobs").json();
    let ids: Vec<_> = list["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!((ids, &list["cursor"]), (vec![&json!("f2"), &json!("f3")], &Value::Null));
    let first = server.get("/api/v1/jobs?limit=1").json();
    let next = format!("/api/v1/jobs?limit=1&cursor={}", first["cursor"].as_str().unwrap());
    assert_eq!(server.get(&next).json()["jobs"][0]["id"], "f3");
    let ranks = &server.get("/api/v1/resources").json()["ranks"];
    assert_eq!((&ranks[0]["drained"], &ranks[0]["hostname"]), (&json!("bad fan"), &json!("a")));
    assert_eq!((&ranks[1]["cores_allocated"], &ranks[1]["jobs"]), (&json!(2), &json!(["f2"])));
    let instance = server.get("/api/v1/instance").json();
    assert_eq!(
        (&instance["state"], &instance["up"], &instance["size"]),
        (&json!("run"), &json!(2), &json!(2))
    );
    let metrics = server.get("/metrics");
    assert!(metrics.head.contains("application/openmetrics-text"), "{}", metrics.head);
    assert!(metrics.body.contains("flux_cores{state=\"drained\"} 2\n"), "{}", metrics.body);
}

#[test]
fn output_and_events_are_there_whole_and_as_streams() {
    let server = Server::start();
    assert_eq!(server.get("/api/v1/jobs/f2/output").body, "one\ntwo\n");
    assert_eq!(server.get("/api/v1/jobs/f2/output?stream=stderr").body, "two\n");
    assert_eq!(server.get("/api/v1/jobs/f2/output?stream=x").status, 400);
    assert_eq!(server.get("/api/v1/jobs/f3/events").json()["events"][1]["name"], "start");
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
    assert_eq!(events.matches("event: event\n").count(), 2);
}

#[test]
fn every_change_is_an_event() {
    let server = Server::start();
    let request = "GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer";
    let stream = server.begin(&format!("{request} {TOKEN}\r\n\r\n"));
    let mut missing = vec![
        ("event: jobs", r#""id":"f2""#),
        ("event: resources", r#""drained":"bad fan""#),
        ("event: instance", r#""state":"run""#),
    ];
    let mut lines = BufReader::new(stream).lines();
    let mut event = String::new();
    let began = Instant::now();
    while !missing.is_empty() {
        assert!(began.elapsed() < PATIENCE, "{missing:?}");
        let line = lines.next().unwrap().unwrap();
        missing.retain(|(name, data)| event != *name || !line.contains(data));
        event = line;
    }
    // The state that the job has reached is waited for.
    assert!(server.was_asked(r#""state":16}"#));
}

#[test]
fn idle_clients_keep_no_other_client_out() {
    let server = Server::start();
    let silent: Vec<_> = (0..200).map(|_| server.begin("")).collect();
    let bodiless = "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 9\r\n\r\n";
    let halves: Vec<_> = (0..40).map(|_| server.begin(bodiless)).collect();
    let listen = format!("GET /api/v1/events HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let listeners: Vec<_> = (0..8).map(|_| server.begin(&listen)).collect();
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
fn a_token_is_made_where_none_is_given() {
    let place = Place::new();
    broker_that(place.at("broker"), |_, _| Err::<String, _>(38));
    let instance = ServedInstance { token_sha256: None, ..place.instance() };
    let mut process = Background::start(program(&instance));
    let line = process.line();
    let (address, tokens) = line.trim_start_matches("http://").split_once("/?token=").unwrap();
    let (token, code) = tokens.split_once("&code=").unwrap();
    assert!(token.len() >= 32 && code.len() >= 32, "{line}");
    let page = |query: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /{query} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 200"), "{text}");
        text
    };
    // The first page with the code has the token, and no other.
    for (query, has_token) in [
        (String::new(), false),
        (format!("?token={token}"), false),
        ("?code=0".to_owned(), false),
        (format!("?code={code}"), true),
        (format!("?code={code}"), false),
    ] {
        assert_eq!(page(&query).contains(token), has_token, "{query}");
    }
}

#[test]
fn without_an_instance_or_a_broker_nothing_is_served() {
    let place = Place::new();
    let mut without = Command::new(env!("CARGO_BIN_EXE_flux-rest"));
    for (command, exit, text) in [
        (&mut without, Exit::Usage, "by `flux-agent serve`"),
        (&mut program(&place.instance()), Exit::Broker, "connect to the broker as its user: "),
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
