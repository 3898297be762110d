//! Specifications and objects that nobody would write by mistake: whoever writes them harms nobody else.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::minicluster;
use flux_contract::labels;
use futures::{StreamExt as _, TryStreamExt as _, future::join_all, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt as _, api::PostParams};
use serde_json::{Value, json};

use crate::{Trial, look, trial};

/// How many are on their way at once, as from impatient users.
const AT_ONCE: usize = 8;
/// Large objects of others: more than the operator has memory for.
const CROWD: usize = 300;

/// Fails unless another MiniCluster runs, and the pods of the operator are as they were `before`.
async fn nobody_is_harmed(trial: &Trial, before: &str) -> Result<()> {
    trial.run("other", "size: 2", "command: hostname").await?.complete().await?;
    let after = trial.operator_pods()?;
    ensure!(before == after, "the operator was {before:?} and is {after:?}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn hostile_specifications_harm_nobody() {
    trial("hostile", async |trial| {
        let operator = trial.operator_pods()?;
        let applied = specifications().into_iter().enumerate().map(async |(index, spec)| {
            // JSON is YAML, and this way no text is rewritten. To refuse one is an answer, too.
            let manifest = minicluster(&format!("hostile-{index}"), &spec.to_string());
            trial.apply(&manifest).await.is_ok()
        });
        let accepted = join_all(applied).await.into_iter().filter(|accepted| *accepted).count();
        ensure!(accepted > 2, "the API server took only {accepted}");
        // The operator answers each. Nothing here reads the specifications.
        let answered = "-ojsonpath={.items[*].status.conditions[?(@.type==\"Accepted\")].status}";
        let answers = look("the operator's answers", async || {
            let answers = trial.kubectl(&["get", "miniclusters", answered])?;
            Ok((answers.split_whitespace().count() == accepted).then_some(answers))
        })
        .await?;
        ensure!(answers.contains("True") && answers.contains("False"), "{answers}");
        nobody_is_harmed(trial, &operator).await
    });
}

/// The operator may use 256 MiB, and once held all of whatever had its label. Which operator it is makes no difference,
/// nor how agent and view come into the pods.
#[test]
#[ignore = "needs a cluster"]
fn large_objects_of_others_with_its_label_do_not_stop_the_operator() {
    trial("crowd", async |trial| {
        let operator = trial.operator_pods()?;
        let data = "x".repeat(900 * 1024);
        let api = trial.api::<ConfigMap>();
        let maps = (0..CROWD).map(async |number| {
            let map = serde_json::from_value(json!({
                "metadata": {
                    "name": format!("crowd-{number}"),
                    "labels": { labels::MANAGED_BY: labels::MANAGED_BY_VALUE },
                },
                "data": { "text": data },
            }))?;
            let created = api.create(&PostParams::default(), &map).await;
            created.map(drop).context("creating a large ConfigMap")
        });
        stream::iter(maps).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let run = trial.run("beside", "size: 1", "command: sleep infinity").await?;
        run.ready().await?;
        // The watch of ConfigMaps brings this after all of them.
        let change = json!({ "metadata": { "labels": { labels::NAME: null } } });
        run.patch("configmap/beside-agent", &change)?;
        look("the operator to write a label", async || {
            let map = api.get("beside-agent").await?;
            Ok(map.labels().contains_key(labels::NAME).then_some(()))
        })
        .await?;
        nobody_is_harmed(trial, &operator).await
    });
}

/// What once stopped the operator, and what nearly did; each for a pod that no node takes.
fn specifications() -> Vec<Value> {
    let hostlist = |hostlist: String| json!({ "flux": { "bursting": { "hostlist": hostlist } } });
    let overlay = |levels| {
        let deep = (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        json!({ "pod": { "overlay": deep } })
    };
    let deletes = "\u{7f}".repeat(65_000);
    let lines = json!({
        "batch": true, "command": "a\n".repeat(30_000), "logs": format!("/{}", "x".repeat(4_000)),
    });
    let texts = json!({
        "command": deletes, "preCommand": deletes, "environment": { "A": deletes },
    });
    let all = [
        json!({}),
        json!({ "maxSize": 100_000 }),
        hostlist(format!("a{}", "[0]".repeat(20_000))),
        hostlist(format!("a[{}]", "0".repeat(65_000))),
        hostlist(format!("a[{}]", "0".repeat(70_000))),
        hostlist(format!("{}[0-131071]", "a".repeat(4_000))),
        overlay(50),
        overlay(120),
        overlay(1_000),
        json!({ "containers": [lines] }),
        json!({ "containers": [texts] }),
    ];
    // With a container, for a pod that no node takes: it is about the operator alone.
    let unschedulable = |mut spec: Value| {
        spec["size"] = json!(1);
        spec["pod"]["nodeSelector"] = json!({ "e2e.invalid/none": "none" });
        if spec["containers"].is_null() {
            spec["containers"] = json!([{}]);
        }
        spec["containers"][0]["image"] = json!("hostile.invalid/none:1");
        spec
    };
    all.into_iter().map(unschedulable).collect()
}
