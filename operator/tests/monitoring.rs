//! Alerts and dashboard with what the operator really tells: a Prometheus collects the metrics of an operator beside a
//! simulated Kubernetes, in which MiniClusters run, fail and wait, and evaluates every expression. `cargo verify` has
//! Prometheus; by hand its programs are those in PATH, or in the directory that `PROMETHEUS` names:
//!
//! `cargo test -p flux-operator --test monitoring -- --ignored`
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod support;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::hello;
use support::process::{self, Process};
use support::server::Server;
use support::simulation::Kubernetes;
use support::simulation::agent::End;
use support::simulation::job::{index_of, is_broker};
use support::simulation::kubelet::Kubelet;
use support::world::PODS;
use tokio::time::{sleep, timeout};

const CLUSTERS: &str = "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters";
const JOBS: &str = "/apis/batch/v1/namespaces/work/jobs";

/// The directory of `prometheus` and `promtool`.
const PROMETHEUS: &str = "PROMETHEUS";
/// What is awaited comes within seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// What Grafana puts in the place of its variables.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$job", "flux-operator")];

/// Alerts for which there is a reason in this cluster.
const ACTIVE: [&str; 3] =
    ["FluxMiniClusterFailed", "FluxMiniClusterWaits", "FluxOperatorReconcilesFail"];

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn rules() -> PathBuf {
    in_repository("deploy/chart/files/rules.yaml")
}

fn program(name: &str) -> Command {
    let directory = std::env::var_os(PROMETHEUS).map(PathBuf::from).unwrap_or_default();
    Command::new(directory.join(name))
}

/// Does `step` again and again until it has an answer.
async fn until<T>(what: &str, step: impl AsyncFn() -> Option<T>) -> T {
    let met = async {
        loop {
            if let Some(answer) = step().await {
                return answer;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, met).await.unwrap_or_else(|_| panic!("waited for: {what}"))
}

/// Serves what `server` holds on a port of the loopback, watches included.
async fn serve(server: Server) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = Router::new().fallback(async move |request: Request<Body>| {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        server.answer(Request::from_parts(parts, body.into())).await
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// The address that a line of the log of `process` has between `before` and `after`.
async fn address(process: &Process, before: &str, after: char) -> String {
    let find = async || {
        let log = process.log();
        let line = log.lines().find_map(|line| line.split_once(before))?;
        Some(line.1.split(after).next()?.to_owned())
    };
    until(before, find).await
}

/// A Prometheus that collects from `target`, with the alerts of the chart.
struct Prometheus {
    client: Client,
    _process: Process,
}

impl Prometheus {
    async fn start(target: &str, directory: &Path) -> Self {
        let config = json!({
            "global": {
                "scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms",
            },
            "rule_files": [rules()],
            "scrape_configs": [{
                "job_name": "flux-operator", "static_configs": [{ "targets": [target] }],
            }],
        });
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = program("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg("--web.listen-address=127.0.0.1:0");
        let process = Process::start(&mut command, directory.join("prometheus.log"));
        let address = address(&process, "msg=\"Listening on\" address=", ' ').await;
        let url = format!("http://{}", address.trim());
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        Self { client, _process: process }
    }

    /// The data of an answer of its API.
    async fn get(&self, path: &str) -> Value {
        let request = Request::get(format!("/api/v1/{path}")).body(Vec::new()).unwrap();
        let answer: Value = self.client.request(request).await.unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The numbers that `expression` has now.
    async fn query(&self, expression: &str) -> Vec<f64> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .finish();
        let data = self.get(&format!("query?{query}")).await;
        let samples = data["result"].as_array().unwrap().iter();
        let numbers = samples.map(|it| it["value"][1].as_str().unwrap().parse().unwrap());
        numbers.filter(|number: &f64| !number.is_nan()).collect()
    }

    /// Waits until `expression` has a number.
    async fn has_data(&self, expression: &str) {
        let found = async || (!self.query(expression).await.is_empty()).then_some(());
        until(expression, found).await;
    }
}

/// The selectors of metrics in `expression`, each with its labels.
fn selectors(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in expression.split("flux_operator_").skip(1) {
        let name = rest.find(|it: char| it != '_' && !it.is_ascii_alphabetic());
        let (name, rest) = rest.split_at(name.unwrap_or(rest.len()));
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels = labels.map(|(labels, _)| format!("{{{labels}}}")).unwrap_or_default();
        found.push(format!("flux_operator_{name}{labels}"));
    }
    found
}

/// Each expression of the alerts.
fn expressions_of_alerts() -> Vec<String> {
    let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(rules()).unwrap()).unwrap();
    let alerts = rules["groups"][0]["rules"].as_array().unwrap().clone();
    alerts.iter().map(|alert| alert["expr"].as_str().unwrap().to_owned()).collect()
}

/// Each expression of the dashboard, with values in the place of variables. Where they are asked is a variable, too.
fn expressions_of_dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(in_repository("deploy/chart/files/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let of_prometheus = json!({ "type": "prometheus", "uid": "${datasource}" });
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|it| it["name"] == "datasource" && it["type"] == "datasource"));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut expressions = Vec::new();
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["datasource"] == of_prometheus, "{panel}");
        for target in targets {
            assert_eq!(target["datasource"], of_prometheus, "{panel}");
            let mut expression = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in VARIABLES {
                expression = expression.replace(variable, value);
            }
            assert!(!expression.contains('$'), "{expression}");
            expressions.push(expression);
        }
    }
    expressions
}

/// A simulated Kubernetes with MiniClusters, and an operator that runs them.
struct Cluster {
    server: Server,
}

impl Cluster {
    fn new() -> Self {
        let server = Server::default();
        server.brings_news_but_of(&[]);
        server.with(|memory| memory.store.has_queue = true);
        Self { server }
    }

    fn create(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = serde_json::to_value(hello(&json!({}))).unwrap();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = Value::Null;
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        change(&mut object);
        self.server.put(&format!("{CLUSTERS}/{name}"), object);
    }

    fn status(&self, name: &str) -> Value {
        self.server.get(&format!("{CLUSTERS}/{name}")).unwrap()["status"].clone()
    }

    /// Lets Kubernetes go on until the MiniCluster has this state.
    async fn reaches(&self, kubernetes: &mut Kubernetes, name: &str, state: &str) {
        let kubernetes = std::cell::RefCell::new(kubernetes);
        let step = async || {
            self.server.with(|memory| kubernetes.borrow_mut().act(&mut memory.store));
            (self.status(name)["state"] == state).then_some(())
        };
        until(&format!("{name}: {state}"), step).await;
    }

    /// Ends the command of the MiniCluster.
    fn end(&self, name: &str, code: i32) {
        self.server.with(|memory| {
            let is_lead = |pod: &Value| {
                is_broker(pod)
                    && index_of(pod) == 0
                    && pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == name
            };
            for (path, _) in memory.store.select(PODS, is_lead) {
                Kubelet::end(&mut memory.store, &path, &End::of_command(code));
            }
        });
    }

    /// Lets one MiniCluster fail, one end well, one wait for long, one wait in a queue, and one have a status that cannot
    /// be written.
    async fn play(&self) {
        let mut kubernetes = Kubernetes::default();
        let long = |type_: &str| {
            json!({
                "type": type_, "status": "False", "reason": "Starting", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        self.server.refuse(&format!("{JOBS}/waits"), 403, "exceeded quota");
        self.create("waits", |object| {
            object["status"] =
                json!({ "state": "Pending", "conditions": [long("Ready"), long("Suspended")] });
        });
        self.server.refuse(&format!("{CLUSTERS}/unreported/status"), 500, "etcd is down");
        self.create("unreported", |_| {});
        self.create("queued", |object| {
            object["metadata"]["labels"] = json!({ "kueue.x-k8s.io/queue-name": "team" });
        });
        self.reaches(&mut kubernetes, "queued", "Suspended").await;
        let runs = [("done", 0, "Complete"), ("fails", 7, "Failed")];
        for (name, ..) in runs {
            self.create(name, |_| {});
            self.reaches(&mut kubernetes, name, "Running").await;
        }
        for (name, code, state) in runs {
            self.end(name, code);
            self.reaches(&mut kubernetes, name, state).await;
        }
    }
}

/// The alerts that are pending or firing, with what they say.
async fn active_alerts(prometheus: &Prometheus) -> Vec<(String, Value)> {
    let data = prometheus.get("rules").await;
    let rules = data["groups"][0]["rules"].as_array().unwrap().clone();
    let unhealthy: Vec<_> = rules.iter().filter(|rule| rule["health"] == "err").collect();
    assert!(unhealthy.is_empty(), "{unhealthy:?}");
    let alerts = rules.iter().flat_map(|rule| rule["alerts"].as_array().unwrap());
    let said = |alert: &Value| {
        (alert["labels"]["alertname"].as_str().unwrap().to_owned(), alert["annotations"].clone())
    };
    alerts.map(said).collect()
}

#[tokio::test]
#[ignore = "needs Prometheus"]
async fn alerts_and_dashboard_find_what_the_operator_tells() {
    let cluster = Cluster::new();
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_flux-operator"));
    let operator =
        process::operator(program, &serve(cluster.server.clone()).await, directory.path());
    let target = address(&operator, "\"address\":\"", '"').await;
    let prometheus = Prometheus::start(&target, directory.path()).await;
    // What happens from now on happens between two looks at the metrics.
    prometheus.has_data("flux_operator_reconciles_pending").await;
    cluster.play().await;
    for expression in expressions_of_alerts().iter().chain(&expressions_of_dashboard()) {
        prometheus.query(expression).await;
        for selector in selectors(expression) {
            prometheus.has_data(&selector).await;
        }
    }
    for expression in expressions_of_dashboard() {
        prometheus.has_data(&expression).await;
    }
    let all = async || {
        let alerts = active_alerts(&prometheus).await;
        let names: BTreeSet<_> = alerts.iter().map(|(name, _)| name.clone()).collect();
        ACTIVE.iter().all(|name| names.contains(*name)).then_some(alerts)
    };
    for (name, said) in until("the alerts", all).await {
        println!("{name}: {said}");
        assert!(ACTIVE.contains(&name.as_str()) || name == "FluxOperatorRequestsFail", "{name}");
        assert!(!said.to_string().contains("no value"), "{said}");
    }
    check_metrics(&target, directory.path()).await;
}

/// Lets promtool look at the metrics of the operator at `target`.
async fn check_metrics(target: &str, directory: &Path) {
    let url = format!("http://{target}").parse().unwrap();
    let client = Client::try_from(Config::new(url)).unwrap();
    let request = Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let file = directory.join("metrics");
    std::fs::write(&file, in_older_format(&text)).unwrap();
    let mut check = program("promtool");
    succeeds(check.args(["check", "metrics"]).stdin(std::fs::File::open(&file).unwrap()));
}

/// `text`, of `OpenMetrics`, in the format that promtool reads: there the names of metrics have their ends in each
/// line, and no metric is of the type `info`.
fn in_older_format(text: &str) -> String {
    let mut lines = Vec::new();
    let end_of = |name: &str| {
        let is_of = |kind: &str| text.contains(&format!("# TYPE {name} {kind}\n"));
        let ends = [("counter", "_total"), ("info", "_info")];
        ends.iter().find(|(kind, _)| is_of(kind)).map_or("", |(_, end)| end)
    };
    for line in text.strip_suffix("# EOF\n").unwrap().lines() {
        lines.push(match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
            ["#", word, name, "info"] => format!("# {word} {name}{} gauge", end_of(name)),
            ["#", word, name, rest] => format!("# {word} {name}{} {rest}", end_of(name)),
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}:\n{said}");
}

#[test]
#[ignore = "needs Prometheus"]
fn the_alerts_are_valid_and_fire_when_they_should() {
    succeeds(program("promtool").args(["check", "rules"]).arg(rules()));
    let tests = in_repository("operator/tests/monitoring/alerts.yaml");
    succeeds(program("promtool").args(["test", "rules"]).arg(tests));
}
