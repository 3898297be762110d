//! What the operator keeps of a large cluster: its memory as a process of its own, beside an API server that
//! holds a thousand MiniClusters of five pods as a real one does, or what other people have put there.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

#[path = "footprint/hostile.rs"]
mod hostile;
mod support;

use axum::Router;
use hostile::Hostile;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::server::Server;

/// How many MiniClusters there are.
const MINICLUSTERS: usize = 1000;
/// Workers of each.
const WORKERS: RangeInclusive<u32> = 1..=4;
/// What a real API server holds of one that runs, an object in a line: of the kinds that the operator lists or
/// watches, with the lead and one worker. `footprint/record.sh` records it again.
const RECORDED: &str = include_str!("footprint/recorded.jsonl");
/// The MiniCluster that was recorded.
const NAME: &str = "footprint-name";
/// Resident memory with all of them, in KiB: of the program as it is released, where this variable names it.
const MEMORY_LIMIT: u64 = 56 * 1024;
const RELEASED: &str = "FLUX_OPERATOR_UNDER_TEST";
/// The part of it that is no file, in KiB, of the program as tests have it, whose code is three times as large.
const DATA_LIMIT: u64 = 46 * 1024;
/// Resident memory at its highest, in KiB, whatever others write: less than the 256 MiB that the Deployment gives.
const PEAK_LIMIT: u64 = 192 * 1024;
/// Where all objects are.
const NAMESPACE: &str = "work";
/// A gigabyte of text has come and gone long before.
const HOSTILE_DEADLINE: Duration = Duration::from_mins(5);
/// Each is reconciled long before.
const DEADLINE: Duration = Duration::from_mins(2);

/// The operator; it is ended when this goes.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        // It has ended already, or this ends it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Operator {
    /// Starts it for the namespace of the tests. Its API server is at `address`.
    fn start(address: &str, directory: &tempfile::TempDir) -> Self {
        let kubeconfig = directory.path().join("kubeconfig");
        let config = json!({
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "users": [{"name": "it", "user": {}}],
            "current-context": "it",
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let program =
            std::env::var(RELEASED).unwrap_or_else(|_| env!("CARGO_BIN_EXE_flux-operator").into());
        let words =
            ["run", "--namespace=work", "--metrics-bind=127.0.0.1:0", "--health-bind=127.0.0.1:0"];
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.args(words).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }

    /// A figure of `/proc/PID/status`, in KiB.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }
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

/// The name of MiniCluster `number`; as long as [`NAME`].
fn name(number: usize) -> String {
    format!("footprint-{number:04}")
}

/// A server with as much as a real one holds when many MiniClusters run.
fn crowded() -> Server {
    let server = Server::default();
    let put = |text: &str| {
        let object: Value = serde_json::from_str(text).unwrap();
        let collection = collection(object["kind"].as_str().unwrap());
        let name = object["metadata"]["name"].as_str().unwrap();
        server.put(&format!("{collection}/{name}"), object);
    };
    for number in 0..MINICLUSTERS {
        // Each uid begins with these zeros, and each name with that of the MiniCluster.
        let unique = RECORDED
            .replace("00000000-0000", &format!("{number:08x}-0000"))
            .replace(NAME, &name(number));
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

/// Serves on a port of the loopback what `answer` answers. Watches bring nothing.
async fn serve<F>(
    answer: impl Fn(Request<axum::body::Body>) -> F + Clone + Send + Sync + 'static,
) -> String
where
    F: Future<Output = Response<axum::body::Body>> + Send,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = Router::new().fallback(move |request: Request<axum::body::Body>| async move {
        if request.uri().query().is_some_and(|it| it.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        answer(request).await
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Serves what `server` holds.
async fn serve_all_of(server: Server) -> String {
    serve(move |request| {
        let server = server.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            server.answer(Request::from_parts(parts, Body::from(body))).await
        }
    })
    .await
}

#[tokio::test]
async fn a_thousand_miniclusters_take_little_memory() {
    let server = crowded();
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::start(&serve_all_of(server.clone()).await, &directory);
    let clusters = collection("MiniCluster");
    let paths = (0..MINICLUSTERS).map(|number| format!("{clusters}/{}", name(number)));
    let all = tokio::time::timeout(DEADLINE, server.all_were_read(paths)).await;
    let figures = ["VmRSS", "RssAnon", "VmHWM"].map(|name| operator.memory(name));
    println!("resident, the part that is no file, and the most so far: {figures:?} KiB");
    let [whole, data, _] = figures;
    let log = || std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(all.is_ok(), "{}", log());
    // They run for this operator, too: it has nothing else to say of them.
    assert!(!server.writes().iter().any(|write| write.ends_with("/status")), "{}", log());
    assert!(data <= DATA_LIMIT, "{data} KiB are no file");
    assert!(std::env::var_os(RELEASED).is_none() || whole <= MEMORY_LIMIT, "{whole} KiB");
}

#[tokio::test]
async fn what_other_people_write_takes_no_memory() {
    let server = Hostile::default();
    let answering = server.clone();
    let serving = serve(move |request| {
        let server = answering.clone();
        async move { server.answer(request).await }
    });
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::start(&serving.await, &directory);
    let all = tokio::time::timeout(HOSTILE_DEADLINE, server.all_were_reported()).await;
    let figures = ["VmRSS", "RssAnon", "VmHWM"].map(|name| operator.memory(name));
    println!("resident, the part that is no file, and the most so far: {figures:?} KiB");
    let [_, data, peak] = figures;
    assert!(all.is_ok(), "{}", std::fs::read_to_string(directory.path().join("log")).unwrap());
    assert!(data <= DATA_LIMIT, "{data} KiB are no file");
    assert!(peak <= PEAK_LIMIT, "{peak} KiB at once");
}
