//! The bugs of the operator in Go that only a cluster can show, by their numbers in
//! `operator/tests/it/go_differences.txt`.

use anyhow::{Context as _, ensure};
use e2e::trial::{condition, is_true};
use flux_operator::crd::{MiniCluster, MiniClusterStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{apply, await_status, complete, lead_log, trial};

const HELLO: &str = "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'echo hello'}]}";
const STAYS: &str =
    "{size: 2, maxSize: 3, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";

#[test]
#[ignore = "needs a cluster"]
fn bug_01a_and_01b_pods_of_others_are_left_alone_and_in_nobodys_way() {
    trial("bug-01", &[], async |trial| {
        let pods = trial.api::<Pod>();
        // Its node does not exist, so it stays as it is; and it has no labels at all.
        let stray = json!({
            "metadata": { "name": "stray" },
            "spec": {
                "nodeSelector": { "no.such/label": "x" },
                "containers": [{ "name": "a", "image": "ubuntu:24.04" }],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(stray)?).await?;
        for name in ["one", "two"] {
            apply(trial, name, HELLO).await?;
        }
        for name in ["one", "two"] {
            complete(trial, name).await?;
            for pod in trial.pods(name).await? {
                let index = pod.labels().get("job-index").map(String::as_str);
                let own = pod.labels().get("batch.kubernetes.io/job-completion-index");
                ensure!(
                    index.is_none() || index == own.map(String::as_str),
                    "{}: job-index {index:?}",
                    pod.name_any()
                );
            }
        }
        let stray = pods.get("stray").await.context("reading the stray pod")?;
        ensure!(stray.labels().is_empty(), "the stray pod got labels: {:?}", stray.labels());
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn bug_06_and_07_the_size_in_the_status_is_that_of_the_job_also_after_a_refused_change() {
    trial("bug-06", &[], async |trial| {
        let name = apply(trial, "sizes", STAYS).await?;
        let sizes = |size| {
            move |status: &MiniClusterStatus| (status.size, status.maximum_size) == (size, 3)
        };
        await_status(trial, &name, "of size 2", sizes(2)).await?;
        let clusters = trial.api::<MiniCluster>();
        let size = |size: i32, maximum: i32| {
            Patch::Merge(json!({ "spec": { "size": size, "maxSize": maximum } }))
        };
        let parameters = PatchParams::default();
        // The API server refuses more than maxSize; with maxSize raised as well, the operator does,
        // because Flux knows three hosts.
        let above = clusters.patch(&name, &parameters, &size(4, 3)).await;
        ensure!(above.is_err(), "size 4 of 3 was accepted");
        clusters.patch(&name, &parameters, &size(5, 5)).await?;
        let refused = |status: &MiniClusterStatus| {
            status.observed_generation == Some(2) && (status.size, status.maximum_size) == (2, 3)
        };
        await_status(trial, &name, "of size 2 still", refused).await?;
        clusters.patch(&name, &parameters, &size(3, 3)).await?;
        await_status(trial, &name, "of size 3", sizes(3)).await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn bug_08_conditions_follow_the_run_and_their_times_the_conditions() {
    trial("bug-08", &[], async |trial| {
        // A kubelet that has just started puts first readiness probes off by up to 20 s.
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'sleep 30'}]}";
        let name = apply(trial, "conditions", spec).await?;
        let ready = |status: &MiniClusterStatus| {
            let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            status.ready_brokers == 2 && ready.is_some_and(|condition| condition.status == "True")
        };
        let running = await_status(trial, &name, "ready with two brokers", ready).await?;
        ensure!(!is_true(&running, "Complete"), "complete while it runs");
        let ended = complete(trial, &name).await?;
        let (state, reason, _) = condition(&ended, "Ready").context("no condition Ready")?;
        ensure!(state == "False", "still ready after the end: {reason}");
        let time = |cluster: &MiniCluster, kind: &str| {
            let conditions = cluster.status.clone().unwrap_or_default().conditions;
            let found = conditions.into_iter().find(|condition| condition.type_ == kind);
            found.map(|condition| condition.last_transition_time.0)
        };
        let (before, after) = (time(&running, "Complete"), time(&ended, "Complete"));
        ensure!(before < after, "Complete changed, its time did not: {before:?} {after:?}");
        let generation = ended.status.and_then(|status| status.observed_generation);
        ensure!(generation == ended.metadata.generation, "observed generation {generation:?}");
        Ok(())
    });
}

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
