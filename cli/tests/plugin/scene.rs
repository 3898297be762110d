//! A simulated cluster with MiniClusters and their pods, and the plugin that is connected to it.

use crate::process::{Ended, Process};
use flux_testkit::access::Access;
use flux_testkit::http::Endpoint;
use flux_testkit::server::Server;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) const MINICLUSTERS: &str =
    "/apis/flux-framework.org/v1alpha2/namespaces/default/miniclusters";
const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) struct Scene {
    pub endpoint: Endpoint,
    directory: TempDir,
}

impl Scene {
    /// A cluster without objects, which removes MiniClusters once they are deleted.
    pub(crate) async fn new() -> Self {
        let server = Server::new(Access::everything());
        server.deliver_all_except(&[]);
        let endpoint = Endpoint::serve(server).await;
        let directory = TempDir::new().unwrap();
        endpoint.write_kubeconfig(&directory.path().join("kubeconfig"));
        tokio::spawn(collect(endpoint.server.clone()));
        Self { endpoint, directory }
    }

    /// A cluster with the MiniCluster `hello` in this state, and its lead `hello-0-a`, which has written the line `one`.
    pub(crate) async fn hello(state: &str, lead: &str) -> Self {
        let scene = Self::new().await;
        let (reason, code) = match state {
            "Complete" => ("CommandSucceeded", Some(0)),
            other => (other, None),
        };
        scene.minicluster("hello", state, reason, code);
        let log = format!("{}/hello", scene.pod("hello", 0, "a", lead));
        scene.endpoint.logs.write(&log, &[b"one"]);
        if lead == "terminated" {
            scene.endpoint.logs.end(&log);
        }
        scene
    }

    /// Puts a MiniCluster whose status has this state, reason and exit code.
    pub(crate) fn minicluster(&self, name: &str, state: &str, reason: &str, code: Option<i32>) {
        let is_end = ["Complete", "Failed"].contains(&state);
        let mut status = json!({
            "state": state, "reason": reason, "observedGeneration": 1,
            "conditions": [{
                "type": if is_end { state } else { "Progressing" }, "status": "True", "reason": reason,
                "message": format!("it is {state}"), "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        if let Some(code) = code {
            status["exitCode"] = code.into();
        }
        let path = format!("{MINICLUSTERS}/{name}");
        let new = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": {
                "name": name, "namespace": "default", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "size": 2, "containers": [{ "image": "ubuntu", "command": "true" }] },
        });
        let mut object = self.endpoint.server.get(&path).unwrap_or(new);
        object["status"] = status;
        self.endpoint.server.put(&path, object);
    }

    /// Puts a pod of this rank. `state` is `waiting`, `running` or `terminated`.
    pub(crate) fn pod(&self, cluster: &str, rank: u32, suffix: &str, state: &str) -> String {
        let name = format!("{cluster}-{rank}-{suffix}");
        let time = "2026-01-01T00:00:00Z";
        let states = match state {
            "waiting" => {
                let message = "wait-for-lead: 10.0.0.1:8050: refused";
                json!({ "waiting": { "reason": "PodInitializing", "message": message } })
            }
            "running" => json!({ "running": { "startedAt": time } }),
            _ => json!({ "terminated": { "exitCode": 0, "startedAt": time, "finishedAt": time } }),
        };
        let path = format!("{PODS}/{name}");
        let age = self.endpoint.server.paths(PODS).len();
        let new = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "default",
                "creationTimestamp": format!("2026-01-01T00:{age:02}:00Z"),
                "labels": {
                    "batch.kubernetes.io/job-name": cluster,
                    "batch.kubernetes.io/job-completion-index": rank.to_string(),
                },
            },
            "spec": { "nodeName": "node", "containers": [{ "name": cluster, "image": "ubuntu" }] },
        });
        let mut object = self.endpoint.server.get(&path).unwrap_or(new);
        object["status"] = json!({
            "phase": if state == "terminated" { "Succeeded" } else { "Running" },
            "containerStatuses": [{
                "name": cluster, "image": "", "imageID": "", "ready": state == "running",
                "restartCount": 0, "state": states,
            }],
        });
        self.endpoint.server.put(&path, object);
        name
    }

    /// The MiniCluster of this name, unless it is being deleted.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let object = self.endpoint.server.get(&format!("{MINICLUSTERS}/{name}"));
        object.filter(|object| object["metadata"]["deletionTimestamp"].is_null())
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.endpoint.server.change(&format!("{MINICLUSTERS}/{name}"), change);
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        Process::start(self.command(arguments))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-flux"));
        command.arg("--kubeconfig").arg(self.directory.path().join("kubeconfig"));
        command.args(arguments).env("HOME", self.directory.path()).current_dir(&self.directory);
        command
    }

    pub(crate) fn start_by(&self, script: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_kubectl-flux"), "--kubeconfig"]);
        command.arg(self.directory.path().join("kubeconfig")).args(arguments);
        Process::start(command)
    }

    pub(crate) async fn ends(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end().await
    }

    /// Runs each command line, which has to end with its code and print its part.
    pub(crate) async fn each_ends(&self, lines: &[(&str, i32, &str)]) {
        for (line, code, part) in lines {
            let ended = self.ends(&line.split(' ').collect::<Vec<_>>()).await;
            assert_eq!(ended.code, *code, "{line}: {ended:?}");
            assert!(
                [&ended.out, &ended.err].iter().any(|it| it.contains(part)),
                "{line}: {ended:?}"
            );
        }
    }

    /// The path of a file in the directory in which the plugin runs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of the test, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Adds a container to a pod, or changes its state to `waiting`, `running` or `terminated`.
    pub(crate) fn container(&self, pod: &str, name: &str, state: &str) {
        let path = format!("{PODS}/{pod}");
        let mut object = self.endpoint.server.get(&path).unwrap();
        let state = match state {
            "terminated" => json!({ "terminated": { "exitCode": 0 } }),
            state => json!({ state: {} }),
        };
        let container = json!({ "name": name, "image": "ubuntu" });
        let status = json!({
            "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 1, "state": state,
        });
        for (list, new) in [("/spec/containers", container), ("/status/containerStatuses", status)]
        {
            let list = object.pointer_mut(list).unwrap().as_array_mut().unwrap();
            list.retain(|it| it["name"] != name);
            list.push(new);
        }
        self.endpoint.server.put(&path, object);
    }
}

async fn collect(server: Server) {
    loop {
        for path in server.paths(MINICLUSTERS) {
            let object = server.get(&path).unwrap_or_default();
            if !object["metadata"]["deletionTimestamp"].is_null() {
                server.remove(&path);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
