//! The bugs of the operator in Go that only a cluster can show, by their numbers in
//! `operator/tests/it/go_differences.txt`.

use anyhow::ensure;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::json;

use crate::{apply, complete, lead_log, trial};

/// Quotes inside the command, a Service with two ports, a ConfigMap under another name, and pod
/// resources without a runtime class.
const ALL_AT_ONCE: &str = "
  size: 2
  pod: {resources: {memory: 256Mi}}
  containers:
    - image: ubuntu:24.04
      runFlux: true
      command: bash -c \"cat '/inputs/a b'\"
      volumes: {inputs: {configMapName: simulation, path: /inputs, items: {text: a b}}}
    - image: ubuntu:24.04
      name: web
      runFlux: false
      command: sleep infinity
      ports: [80, 443]
";

#[test]
#[ignore = "needs a cluster"]
fn bug_02_09_10_and_13_what_was_refused_or_lost_runs_and_completes() {
    trial("bug-09", &[], async |trial| {
        let map = json!({ "metadata": { "name": "simulation" }, "data": { "text": "one two\n" } });
        let maps = trial.api::<ConfigMap>();
        maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
        let name = apply(trial, "all", ALL_AT_ONCE).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        ensure!(log.lines().any(|line| line == "one two"), "log of the lead:\n{log}");
        Ok(())
    });
}
