//! Hostile specifications do not harm other users.

use crate::{trial, wait_for};
use anyhow::ensure;
use e2e::trial::minicluster;
use futures::future::join_all;
use serde_json::{Value, json};

#[test]
#[ignore = "needs a cluster"]
fn hostile_specifications_harm_nobody() {
    trial("hostile", async |trial| {
        let operator = trial.operator_pods()?;
        let applied = specifications().into_iter().enumerate().map(async |(index, spec)| {
            // As JSON, which is YAML, kubectl does not rewrite the text. The API server may refuse one, too.
            let manifest = minicluster(&format!("hostile-{index}"), &spec.to_string());
            trial.apply(&manifest).await.is_ok()
        });
        let accepted = join_all(applied).await.into_iter().filter(|accepted| *accepted).count();
        ensure!(accepted > 2, "the API server took only {accepted}");
        // The operator has to answer each.
        let answered = "-ojsonpath={.items[*].status.conditions[?(@.type==\"Accepted\")].status}";
        let answers = wait_for("the operator's answers", async || {
            let answers = trial.kubectl(&["get", "miniclusters", answered])?;
            Ok((answers.split_whitespace().count() == accepted).then_some(answers))
        })
        .await?;
        ensure!(answers.contains("True") && answers.contains("False"), "{answers}");
        trial.run("other", "size: 2", "command: hostname").await?.complete().await?;
        let after = trial.operator_pods()?;
        ensure!(operator == after, "the operator was {operator:?} and is {after:?}");
        Ok(())
    });
}

/// Specifications that once stopped the operator, or nearly; each for a pod that no node takes.
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
    // With a container, for a pod that no node takes, because the test is about the operator alone.
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
