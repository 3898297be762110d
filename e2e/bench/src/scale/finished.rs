//! MiniClusters that have finished, made without running them: what is left of each but its pods.

use super::load::{Bench, objects};
use super::measure::AT_ONCE;
use crate::namespace;
use anyhow::{Context as _, Result, ensure};
use e2e::progress;
use e2e::trial::Trial;
use flux_api::cluster::validate::Defaults;
use flux_api::crd::{Install, MiniCluster};
use flux_api::images::{AGENT_IMAGE, VIEW_IMAGE};
use flux_api::objects::Images;
use flux_api::render;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_mins(30);
/// The Job controller ignores a Job with another manager.
const MANAGER: &str = "flux-framework.org/bench";

/// Makes `count` of them in a namespace of their own. An operator then records and reports their ends.
pub(super) async fn make(client: &Client, bench: Bench<'_>, count: u32) -> Result<()> {
    let trial = Trial::begin(&bench.environment.cluster, client, "finished").await?;
    let mut news = namespace::watch(&trial, &[ApiResource::erase::<MiniCluster>(&())]).await?;
    progress::log(&format!("making {count} finished MiniClusters"));
    let spec = json!({
        "size": 4, "containers": [{"image": "ubuntu:24.04", "command": "echo hello world"}],
    });
    stream::iter(objects("done", count, &spec))
        .map(|object| make_one(&trial, object))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    progress::log("an operator reports their ends");
    let mut operator = bench.program.start(bench.environment)?;
    let (begun, mut complete) = (Instant::now(), BTreeSet::new());
    while u32::try_from(complete.len())? < count {
        ensure!(begun.elapsed() < DEADLINE, "{} of {count} are reported", complete.len());
        operator.check()?;
        let next = tokio::time::timeout(Duration::from_secs(1), news.next()).await;
        let Ok(next) = next else { continue };
        let seen = next.context("the watch has ended")??.object;
        if seen.data["status"]["state"] == "Complete" {
            complete.insert(seen.name_any());
        }
    }
    operator.rest().await.map(drop)
}

async fn make_one(trial: &Trial, object: DynamicObject) -> Result<()> {
    let name = object.name_any();
    let made = create::<MiniCluster>(trial, &json!(object)).await?;
    let defaults = Defaults::new(VIEW_IMAGE.to_owned(), None, Install::Copy);
    let cluster = render::cluster(&made, &defaults)?;
    let images =
        Images { agent: AGENT_IMAGE.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() };
    for mut object in render::render(&cluster, &images)? {
        match object["kind"].as_str() {
            Some("Service") if object["spec"]["clusterIP"] == "None" => {
                create::<Service>(trial, &object).await.map(drop)?;
            }
            Some("ConfigMap") => create::<ConfigMap>(trial, &object).await.map(drop)?,
            Some("Job") => {
                object["spec"]["managedBy"] = json!(MANAGER);
                create::<Job>(trial, &object).await?;
                end(trial, &name).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

async fn create<K>(trial: &Trial, object: &Value) -> Result<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let mut object: K = serde_json::from_value(object.clone()).context("reading an object")?;
    object.meta_mut().namespace = None;
    let api: Api<K> = trial.api();
    api.create(&PostParams::default(), &object).await.context("making an object")
}

/// Writes the status of a Job that is complete.
async fn end(trial: &Trial, name: &str) -> Result<()> {
    let at = k8s_openapi::jiff::Timestamp::now().round(k8s_openapi::jiff::Unit::Second)?;
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "SuccessPolicy", "message": "",
            "lastTransitionTime": at, "lastProbeTime": at,
        })
    };
    let status = json!({ "status": {
        "startTime": at, "completionTime": at, "succeeded": 1, "completedIndexes": "0",
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    } });
    let api: Api<Job> = trial.api();
    let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
    patched.map(drop).context("ending a Job")
}
