//! Specifications and objects that nobody would write by mistake: whoever writes them harms nobody else.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::{product::install::NAMESPACE, trial::Trial};
use flux_contract::labels;
use flux_operator::crd::{MiniCluster, MiniClusterStatus};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, Object, ObjectMeta},
    runtime::wait::await_condition,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{DEADLINE, complete, ready_lead, trial};

/// How many are on their way at once, as from impatient users.
const AT_ONCE: usize = 8;
/// Large objects of others: more than the operator has memory for.
const CROWD: usize = 300;

/// A MiniCluster whose specification is not read: no client may have to.
type Reported = Object<IgnoredAny, MiniClusterStatus>;

#[test]
#[ignore = "needs a cluster"]
fn hostile_specifications_harm_nobody() {
    trial("hostile", &[], async |trial| {
        // The first time images are brought to the node.
        hello_world(trial).await?;
        let earlier = hello_world(trial).await?;
        let before = operator(trial).await?;
        let accepted = apply_all(trial).await?;
        let beside = hello_world(trial).await?;
        let answers = answers(trial, &accepted).await?;
        ensure!(
            answers.iter().any(|status| status == "True")
                && answers.iter().any(|status| status == "False"),
            "some are good and some are not: {answers:?}"
        );
        let after = operator(trial).await?;
        ensure!(before == after, "the operator was {before:?} and is {after:?}");
        // Other tests come and go meanwhile: what is usual is the longer of two.
        let usual = earlier.max(hello_world(trial).await?);
        ensure!(
            beside <= usual * 2 + Duration::from_secs(10),
            "hello-world took {beside:?} beside them, and {usual:?} without"
        );
        Ok(())
    });
}

/// The operator may use 256 MiB, and once kept whole whatever had its label. Which operator it is makes no difference, nor
/// how agent and view come into the pods.
#[test]
#[ignore = "needs a cluster"]
fn large_objects_of_others_with_its_label_do_not_stop_the_operator() {
    trial("crowd", &[], async |trial| {
        let before = operator(trial).await?;
        let labels = [(labels::MANAGED_BY, labels::MANAGED_BY_VALUE)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let data = [("text".to_owned(), "x".repeat(900 * 1024))];
        let map = |number: usize| ConfigMap {
            metadata: ObjectMeta {
                name: Some(format!("crowd-{number}")),
                labels: Some(labels.clone().into()),
                ..ObjectMeta::default()
            },
            data: Some(data.clone().into()),
            ..ConfigMap::default()
        };
        let api = trial.api::<ConfigMap>();
        let maps = (0..CROWD).map(async |number| {
            let created = api.create(&PostParams::default(), &map(number)).await;
            created.map(|_| ()).context("creating a large ConfigMap")
        });
        stream::iter(maps).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let spec =
            json!({ "containers": [{ "image": "ubuntu:24.04", "command": "sleep infinity" }] });
        let name = apply(trial, minicluster("beside", &spec)).await.context("refused")?;
        ready_lead(trial, &name).await?;
        // The watch of ConfigMaps brings this after all of them.
        let change = Patch::Merge(json!({ "metadata": { "labels": { labels::NAME: null } } }));
        let changed = format!("{name}-agent");
        api.patch(&changed, &PatchParams::default(), &change).await?;
        let is_back = |map: Option<&ConfigMap>| {
            map.is_some_and(|map| map.labels().get(labels::NAME) == Some(&name))
        };
        let waiting = await_condition(api.clone(), &changed, is_back);
        timeout(DEADLINE, waiting).await.context("waiting for the operator to write a label")??;
        let after = operator(trial).await?;
        ensure!(before == after, "the operator was {before:?} and is {after:?}");
        Ok(())
    });
}

fn minicluster(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
        "metadata": { "name": name }, "spec": spec,
    })
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

/// Applies all; the names of those that the API server took.
async fn apply_all(trial: &Trial) -> Result<Vec<String>> {
    let manifests = specifications()
        .into_iter()
        .enumerate()
        .map(|(index, spec)| apply(trial, minicluster(&format!("hostile-{index}"), &spec)));
    let applied: Vec<Option<String>> =
        stream::iter(manifests).buffer_unordered(AT_ONCE).collect().await;
    let accepted: Vec<String> = applied.into_iter().flatten().collect();
    ensure!(accepted.len() > 2, "the API server took only {accepted:?}");
    Ok(accepted)
}

/// The name, unless the API server refuses the object, which is an answer too.
async fn apply(trial: &Trial, object: Value) -> Option<String> {
    // JSON is YAML, and this way no text is rewritten.
    trial.apply(&object.to_string()).await.ok()
}

/// What the condition `Accepted` of each says: the operator answers each.
async fn answers(trial: &Trial, names: &[String]) -> Result<Vec<String>> {
    let resource = ApiResource::erase::<MiniCluster>(&());
    let api: Api<Reported> =
        Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let mut answers = Vec::new();
    for name in names {
        // One that has gone had ended, and was not to stay.
        let answered = |object: Option<&Reported>| object.is_none_or(|it| accepted(it).is_some());
        let waiting = await_condition(api.clone(), name, answered);
        let found = timeout(DEADLINE, waiting)
            .await
            .with_context(|| format!("waiting for the operator's answer to {name}"))?
            .with_context(|| format!("watching {name}"))?;
        answers.extend(found.as_ref().and_then(accepted));
    }
    Ok(answers)
}

fn accepted(object: &Reported) -> Option<String> {
    let conditions = &object.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == "Accepted");
    found.map(|condition| condition.status.clone())
}

/// How long a hello-world of another namespace takes from its apply to its end.
async fn hello_world(trial: &Trial) -> Result<Duration> {
    let example = include_str!("../../../examples/hello-world/minicluster.yaml");
    let beside = Trial::begin(trial.client(), "beside", &[]).await?;
    let begun = Instant::now();
    let name = beside.apply(example).await?;
    complete(&beside, &name).await?;
    let taken = begun.elapsed();
    beside.clean().await?;
    Ok(taken)
}

/// Name and uid of each pod of the operator, and how often its containers were started again.
async fn operator(trial: &Trial) -> Result<Vec<(String, Option<String>, i32)>> {
    let api: Api<Pod> = Api::namespaced(trial.client().clone(), NAMESPACE);
    let pods = api.list(&ListParams::default()).await.context("listing the operator's pods")?;
    let restarts = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        statuses.into_iter().flatten().map(|status| status.restart_count).sum()
    };
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid(), restarts(pod))).collect())
}

#[test]
fn the_operator_accepts_some_of_the_specifications_and_refuses_others() {
    use flux_operator::cluster::validate::{Defaults, validate};
    let (view_image, arm_view_image) = ("view".to_owned(), "view".to_owned());
    let install = flux_operator::crd::Install::Auto;
    let defaults = Defaults { view_image, arm_view_image, install };
    let is_good = |spec: &&Value| {
        serde_json::from_value(minicluster("hostile", spec))
            .is_ok_and(|object| validate(&object, &defaults).is_ok())
    };
    let all = specifications();
    let good = all.iter().filter(is_good).count();
    assert!((2..all.len() - 2).contains(&good), "{good} of {} are good", all.len());
}
