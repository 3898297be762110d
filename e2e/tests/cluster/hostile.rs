//! Specifications and objects that nobody would write by mistake: whoever writes them harms nobody else.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{
        Trial,
        instance::{Instance, look},
        minicluster,
    },
};
use flux_contract::labels;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt as _, api::PostParams};
use serde_json::{Value, json};

use crate::{run, trial};

/// How many are on their way at once, as from impatient users.
const AT_ONCE: usize = 8;
/// Large objects of others: more than the operator has memory for.
const CROWD: usize = 300;

/// Runs `body`, and the first example beside it. The operator must not have been started again.
async fn harms_nobody(trial: &Trial, body: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let environment = Environment::shared(&Progress::new())?;
    let before = environment.operator_pods()?;
    body().await?;
    let beside = Trial::begin(trial.client(), "beside", &[]).await?;
    let example = include_str!("../../../examples/hello-world/minicluster.yaml");
    let name = beside.apply(example).await?;
    Instance::named(environment, &beside, &name).complete().await?;
    beside.clean().await?;
    let after = environment.operator_pods()?;
    ensure!(before == after, "the operator was {before:?} and is {after:?}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn hostile_specifications_harm_nobody() {
    trial("hostile", &[], async |trial| {
        harms_nobody(trial, async || {
            let accepted = apply_all(trial).await?;
            let answers = answers(trial, &accepted).await?;
            for status in ["True", "False"] {
                ensure!(answers.iter().any(|it| it == status), "none is {status}: {answers:?}");
            }
            Ok(())
        })
        .await
    });
}

/// The operator may use 256 MiB, and once held all of whatever had its label. Which operator it is makes no difference,
/// nor how agent and view come into the pods.
#[test]
#[ignore = "needs a cluster"]
fn large_objects_of_others_with_its_label_do_not_stop_the_operator() {
    trial("crowd", &[], async |trial| {
        harms_nobody(trial, async || {
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
            let run = run(trial, "beside", "size: 1", "command: sleep infinity").await?;
            run.ready().await?;
            // The watch of ConfigMaps brings this after all of them.
            let change = json!({ "metadata": { "labels": { labels::NAME: null } } });
            run.patch("configmap/beside-agent", &change)?;
            look("the operator to write a label", async || {
                let map = api.get("beside-agent").await?;
                Ok(map.labels().contains_key(labels::NAME).then_some(()))
            })
            .await
        })
        .await
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
    all.into_iter().map(unschedulable).collect()
}

/// `spec` with one container, for a pod that no node takes: it is about the operator alone.
fn unschedulable(mut spec: Value) -> Value {
    spec["size"] = json!(1);
    spec["pod"]["nodeSelector"] = json!({ "e2e.invalid/none": "none" });
    if spec["containers"].is_null() {
        spec["containers"] = json!([{}]);
    }
    spec["containers"][0]["image"] = json!("hostile.invalid/none:1");
    spec
}

/// Applies all; the names of those that the API server took. To refuse one is an answer too.
async fn apply_all(trial: &Trial) -> Result<Vec<String>> {
    let applied = specifications().into_iter().enumerate().map(async |(index, spec)| {
        // JSON is YAML, and this way no text is rewritten.
        let manifest = minicluster(&format!("hostile-{index}"), &spec.to_string());
        trial.apply(&manifest).await.ok()
    });
    let applied: Vec<Option<String>> =
        stream::iter(applied).buffer_unordered(AT_ONCE).collect().await;
    let accepted: Vec<String> = applied.into_iter().flatten().collect();
    ensure!(accepted.len() > 2, "the API server took only {accepted:?}");
    Ok(accepted)
}

/// What the condition `Accepted` of each says: the operator answers each. Nothing here reads the specifications.
async fn answers(trial: &Trial, names: &[String]) -> Result<Vec<String>> {
    let environment = Environment::shared(&Progress::new())?;
    let mut answers = Vec::new();
    for name in names {
        let run = Instance::named(environment, trial, name);
        let accepted = "-ojsonpath={.status.conditions[?(@.type==\"Accepted\")].status}";
        let what = format!("the operator's answer to {name}");
        let answer = look(&what, async || {
            let answer = run.kubectl(&["get", "minicluster", name, accepted])?;
            Ok((!answer.is_empty()).then_some(answer))
        });
        answers.push(answer.await?);
    }
    Ok(answers)
}
