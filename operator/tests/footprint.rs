//! What the operator keeps of a large cluster: its memory as a process of its own, beside an API server that
//! holds a thousand MiniClusters of five pods.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod support;

use axum::Router;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::server::Server;
use support::world::{CLUSTER, World, of_the_job};

/// How many MiniClusters there are.
const MINICLUSTERS: usize = 1000;
/// Pods of each.
const PODS: u32 = 5;
/// Resident memory with all of them, in KiB: of the program as it is released, where this variable names it.
const MEMORY_LIMIT: u64 = 40 * 1024;
const RELEASED: &str = "FLUX_OPERATOR_UNDER_TEST";
/// The part of it that is no file, in KiB, of the program as tests have it, whose code is three times as large.
const DATA_LIMIT: u64 = 34 * 1024;
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

/// The path and the name of MiniCluster `number` and of what belongs to it.
fn renamed(text: &str, number: usize) -> String {
    text.replace("hello", &format!("mc-{number:04}"))
        .replace("job-uid", &format!("job-{number:04}"))
}

/// A server with many MiniClusters that run, and as much of each as one has that an operator has made.
async fn crowded() -> Server {
    let world = World::new(&json!({"size": PODS}));
    world.reconcile().await.unwrap();
    let pods = (0..PODS).map(|index| of_the_job(&format!("hello-{index}-abcde"), index));
    let pods = pods.map(
        |metadata| json!({"kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}),
    );
    support::world::put_pods(&world, pods.collect());
    world.reconcile().await.unwrap();
    let one = serde_json::to_string(&world.server.everything()).unwrap();
    let server = Server::default();
    for number in 0..MINICLUSTERS {
        let objects: Vec<(String, Value)> = serde_json::from_str(&renamed(&one, number)).unwrap();
        for (path, object) in objects {
            server.put(&path, object);
        }
    }
    server
}

/// Serves it on a port of the loopback.
async fn serve(server: Server) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = move |request: Request<axum::body::Body>| async move {
        if request.uri().query().is_some_and(|it| it.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let answer = server.answer(Request::from_parts(parts, Body::from(body))).await;
        let (parts, body) = answer.into_parts();
        let body = body.collect_bytes().await.unwrap();
        http::Response::from_parts(parts, axum::body::Body::from(body))
    };
    let app = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

#[tokio::test]
async fn a_thousand_miniclusters_take_no_more_than_forty_mebibytes() {
    let server = crowded().await;
    server.writes();
    let directory = tempfile::tempdir().unwrap();
    let operator = Operator::start(&serve(server.clone()).await, &directory);
    let paths: Vec<String> = (0..MINICLUSTERS).map(|number| renamed(CLUSTER, number)).collect();
    let all = async {
        for path in &paths {
            while server.reads(path) == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    let log = || std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(tokio::time::timeout(DEADLINE, all).await.is_ok(), "{}", log());
    let figures = ["VmRSS", "RssAnon"].map(|name| operator.memory(name));
    println!("resident, and the part that is no file: {figures:?} KiB");
    let [whole, data] = figures;
    assert!(data <= DATA_LIMIT, "{data} KiB are no file");
    assert!(std::env::var_os(RELEASED).is_none() || whole <= MEMORY_LIMIT, "{whole} KiB");
}
