//! MiniClusters that have finished, made without running them: what is left of each but its pods.

use super::load::{Bench, objects};
use super::measure::AT_ONCE;
use crate::namespace;
use e2e::prelude::*;
use flux_api::cluster::validate::Defaults;
use flux_api::crd::Install;
use flux_api::images::{AGENT_IMAGE, VIEW_IMAGE};
use flux_api::objects::Images;
use flux_api::render;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};

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
    let is_complete = |seen: &DynamicObject| seen.data["status"]["state"] == "Complete";
    namespace::await_each(&mut news, &mut operator, count, is_complete).await?;
    operator.rest().await.map(drop)
}

async fn make_one(trial: &Trial, object: DynamicObject) -> Result<()> {
    let made = namespace::create(trial, &object).await?;
    let made: MiniCluster = made.try_parse().context("reading a MiniCluster")?;
    let defaults = Defaults::new(VIEW_IMAGE.to_owned(), None, Install::Copy);
    let cluster = render::cluster(&made, &defaults)?;
    let images =
        Images { agent: AGENT_IMAGE.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() };
    for mut object in render::render(&cluster, &images)? {
        let is_job = object["kind"] == "Job";
        let is_left =
            object["kind"] == "ConfigMap" || is_job || object["spec"]["clusterIP"] == "None";
        if is_job {
            object["spec"]["managedBy"] = json!(MANAGER);
        }
        if is_left {
            let object = serde_json::from_value(object).context("reading an object")?;
            namespace::create(trial, &object).await?;
        }
        if is_job {
            end(trial, &made.name_any()).await?;
        }
    }
    Ok(())
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
