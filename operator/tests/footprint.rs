//! What the operator keeps of a large cluster: its memory as a process of its own, beside an API server that
//! holds a thousand MiniClusters of five pods as a real one does, or what other people have put there.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

#[path = "support/role.rs"]
mod role;

use axum::Router;
use axum::body::{Body, to_bytes};
use flux_testkit::server::Server;
use futures::TryStreamExt as _;
use http::{Request, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How many MiniClusters there are.
const MINICLUSTERS: usize = 1000;
/// Workers of each.
const WORKERS: RangeInclusive<u32> = 1..=4;
/// What a real API server holds of one that runs, an object in a line: of the kinds that the operator lists or
/// watches, with the lead and one worker. `footprint/record.sh` records it again.
const RECORDED: &str = include_str!("footprint/recorded.jsonl");
/// The MiniCluster that was recorded.
const NAME: &str = "footprint-name";
/// What others have put there, a kind of object in a line: MiniClusters whose commands are too long to be valid, and
/// objects with the label that the operator gives its own, of which half say that a MiniCluster owns them, or a Job
/// where they are pods: of `spec.services`, leads, and workers that have failed.
const HOSTILE: &str = include_str!("footprint/hostile.jsonl");
/// KiB of text that each of them holds.
const LARGE: usize = 250;
const LARGEST: usize = 900;
/// Resident memory with all of them, in KiB: of the program as it is released, where this variable names it. Its TLS is
/// a part of that.
const MEMORY_LIMIT: u64 = 60 * 1024;
const RELEASED: &str = "FLUX_OPERATOR_UNDER_TEST";
/// The part of it that is no file, in KiB, of the program as tests have it, whose code is three times as large.
const DATA_LIMIT: u64 = 46 * 1024;
/// Resident memory at its highest, in KiB, whatever others write: less than the 256 MiB that the Deployment gives.
const PEAK_LIMIT: u64 = 192 * 1024;
/// Where all objects are.
const NAMESPACE: &str = "work";
/// Each MiniCluster is reconciled, and a gigabyte of text has come and gone, long before.
const DEADLINE: Duration = Duration::from_mins(5);

/// A program that runs; it is ended when this goes.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, or this ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it, with all that it writes in the file `log`.
    fn start(command: &mut Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// The operator, for the namespace of the objects, with its files in `directory` and its endpoints at a port of the
/// loopback that its log names. Its API server is at `address`.
fn operator(address: &str, directory: &Path) -> Process {
    let program =
        std::env::var(RELEASED).unwrap_or_else(|_| env!("CARGO_BIN_EXE_flux-operator").into());
    let kubeconfig = directory.join("kubeconfig");
    let config = json!({
        "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "users": [{"name": "it", "user": {}}],
        "current-context": "it",
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let words =
        ["run", "--namespace=work", "--metrics-bind=127.0.0.1:0", "--health-bind=127.0.0.1:0"];
    let mut command = Command::new(program);
    Process::start(command.args(words).env("KUBECONFIG", kubeconfig), directory.join("log"))
}

/// A figure of `/proc/PID/status`, in KiB.
fn memory(operator: &Process, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.id())).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap().trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// What the operator takes of memory, in KiB.
#[derive(Debug)]
struct MemoryUse {
    resident: u64,
    /// The part of it that is no file.
    data: u64,
    peak: u64,
}

/// Runs the operator beside `server` until that was asked for each of `requests`.
async fn memory_use_after(server: &Server, requests: impl Iterator<Item = String>) -> MemoryUse {
    let directory = tempfile::tempdir().unwrap();
    let operator = operator(&serve(server.clone()).await, directory.path());
    let all = tokio::time::timeout(DEADLINE, server.await_requests(requests)).await;
    let [resident, data, peak] = ["VmRSS", "RssAnon", "VmHWM"].map(|name| memory(&operator, name));
    assert!(all.is_ok(), "{}", operator.log());
    MemoryUse { resident, data, peak }
}

/// Where a MiniCluster of the tests and its objects are, by their kinds.
fn collection(kind: &str) -> String {
    let (group, plural) = match kind {
        "MiniCluster" => ("/apis/flux-framework.org/v1alpha2", "miniclusters"),
        "Job" => ("/apis/batch/v1", "jobs"),
        "Service" => ("/api/v1", "services"),
        "ConfigMap" => ("/api/v1", "configmaps"),
        _ => ("/api/v1", "pods"),
    };
    format!("{group}/namespaces/{NAMESPACE}/{plural}")
}

fn path(kind: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind))
}

/// The name of MiniCluster `number`; as long as [`NAME`].
fn name(number: usize) -> String {
    format!("footprint-{number:04}")
}

/// The key of the run in the `ConfigMap` of MiniCluster `number`, from its uid and the hash of its fields.
fn run_key(number: usize) -> String {
    let digest =
        Sha256::digest(format!("{number:08x}-0000-4000-8000-000000000000 fe6a6adeeb54cd08"));
    let digits = digest[..5].iter().map(|byte| format!("{byte:02x}"));
    format!("run-{}", digits.collect::<String>())
}

/// A server with as much as a real one holds when many MiniClusters run.
fn crowded() -> Server {
    let server = role::server();
    let put = |text: &str| {
        let object: Value = serde_json::from_str(text).unwrap();
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        server.put(&path(kind.as_str().unwrap(), name.as_str().unwrap()), object);
    };
    for number in 0..MINICLUSTERS {
        // Each uid begins with these zeros, and each name with that of the MiniCluster.
        let unique = RECORDED
            .replace("00000000-0000", &format!("{number:08x}-0000"))
            .replace(NAME, &name(number))
            .replace("run-of-these-fields", &run_key(number));
        let worker = format!("{}-1", name(number));
        for line in unique.lines() {
            if line.contains(&worker) {
                WORKERS
                    .for_each(|it| put(&line.replace(&worker, &format!("{}-{it}", name(number)))));
            } else {
                put(line);
            }
        }
    }
    server
}

fn hostile() -> Server {
    let server = role::server();
    for line in HOSTILE.lines() {
        let (count, line): (usize, Value) = serde_json::from_str(line).unwrap();
        let line = line.to_string();
        let line = line.replace("LARGEST", &text_of(LARGEST)).replace("LARGE", &text_of(LARGE));
        for number in 0..count {
            let text = line.replace("NUMBER", &number.to_string());
            let object: Value = serde_json::from_str(&text).unwrap();
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            server.put(&path(kind.as_str().unwrap(), name.as_str().unwrap()), object);
        }
    }
    server
}

/// What stands in a stored object for so many KiB of text.
fn text_of(size: usize) -> String {
    format!("({size} KiB of text)")
}

/// Serves what `server` holds on a port of the loopback, with the text that [`text_of`] stands for. Watches that
/// begin with no list bring nothing.
async fn serve(server: Server) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = Router::new().fallback(async move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let streams = query.contains("sendInitialEvents=true");
        if query.contains("watch=true") && !streams {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let answer = server.answer(Request::from_parts(parts, body.into())).await;
        let (parts, body) = answer.into_parts();
        if streams {
            let lines = body.into_data_stream().map_ok(|line| spelled_out(line.into()));
            return Response::from_parts(parts, Body::from_stream(lines));
        }
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Response::from_parts(parts, Body::from(spelled_out(body.into())))
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The text with all that [`text_of`] stands for.
fn spelled_out(text: Vec<u8>) -> String {
    let mut text = String::from_utf8(text).unwrap();
    for size in [LARGE, LARGEST] {
        text = text.replace(&text_of(size), &"x".repeat(size * 1024));
    }
    text
}

#[tokio::test]
#[ignore = "takes half a minute; `cargo verify` runs it with the released operator"]
async fn a_thousand_miniclusters_take_little_memory() {
    let server = crowded();
    let reads = (0..MINICLUSTERS).map(|it| format!("GET {}", path("MiniCluster", &name(it))));
    let used = memory_use_after(&server, reads).await;
    println!("{used:?} KiB");
    // They run for this operator, too: it has nothing else to say of them.
    let writes = server.writes();
    let changes = |write: &String| write.ends_with("/status") || write.contains("/configmaps/");
    assert!(!writes.iter().any(changes), "what was recorded is out of date: {writes:?}");
    assert!(used.data <= DATA_LIMIT, "{used:?}");
    assert!(std::env::var_os(RELEASED).is_none() || used.resident <= MEMORY_LIMIT, "{used:?}");
}

#[tokio::test]
#[ignore = "takes half a minute; `cargo verify` runs it with the released operator"]
async fn what_other_people_write_takes_no_memory() {
    let status =
        |number| format!("PATCH {}/status", path("MiniCluster", &format!("minicluster-{number}")));
    let used = memory_use_after(&hostile(), (0..MINICLUSTERS).map(status)).await;
    println!("{used:?} KiB");
    assert!(used.data <= DATA_LIMIT, "{used:?}");
    assert!(used.peak <= PEAK_LIMIT, "{used:?}");
}
