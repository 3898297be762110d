//! The way from the workers to the lead.

use super::{agent_status, kill_broker, run, said};
use crate::replace::await_up;
use crate::{DEADLINE, exec, ready_lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use flux_contract::OVERLAY_PORT;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The Service's label by which kube-proxy leaves it to another program, which there is none of.
const PROXY: &str = "service.kubernetes.io/service-proxy-name";
/// How long it leads nowhere.
const AWAY: Duration = Duration::from_secs(20);

async fn patch(trial: &Trial, patch: &Value) -> Result<()> {
    let patch = Patch::Merge(patch);
    trial.api::<Service>().patch("way-lead", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The agents then find the lead by its name, and by its address when that leads there again.
#[test]
#[ignore = "needs a cluster"]
fn workers_start_and_go_on_while_the_leads_service_leads_nowhere() {
    trial("way", &[], async |trial| {
        let name = run(trial, "way", "size: 1, maxSize: 2, interactive: true", "cores: 1").await?;
        let lead = ready_lead(trial, &name).await?;
        let begun = Instant::now();
        patch(trial, &json!({ "metadata": { "labels": { PROXY: "nobody" } } })).await?;
        let service = trial.api::<Service>().get("way-lead").await?;
        let address = service.spec.and_then(|spec| spec.cluster_ip).context("no address")?;
        let connect = format!("exec 3<>/dev/tcp/{address}/{OVERLAY_PORT}");
        let leads_there =
            || exec(trial, &lead, &name, &["timeout", "1", "bash", "-c", &connect]).is_ok();
        until("the Service to lead nowhere", async || Ok((!leads_there()).then_some(()))).await?;
        trial.edit(&name, &json!({ "size": 2 })).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        let worker = trial.pod(&name, 1).await?.context("no worker")?;
        let log = container_log(trial, &worker, &name).await?;
        ensure!(log.contains("only its name led there"), "the Service led there:\n{log}");
        sleep_until(begun + AWAY).await;
        patch(trial, &json!({ "metadata": { "labels": { PROXY: null } } })).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        let status = agent_status(trial, &worker.name_any(), &name)?;
        ensure!(status["restarts"] == 0, "{status}");
        ensure!(ready_lead(trial, &name).await? == lead, "the lead is another one");
        until("the Service to lead there", async || Ok(leads_there().then_some(()))).await?;
        kill_broker(trial, &worker.name_any(), &name)?;
        said(trial, &name, 1, "its address leads there again").await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_leads_service_from_which_somebody_takes_the_lead_gets_it_back() {
    trial("selector", &[], async |trial| {
        let name = run(trial, "way", "size: 1, interactive: true", "cores: 1").await?;
        ready_lead(trial, &name).await?;
        let services = trial.api::<Service>();
        let selector = async || -> Result<_> {
            let service = services.get("way-lead").await?;
            service.spec.and_then(|spec| spec.selector).context("no selector")
        };
        let whole = selector().await?;
        let index = "batch.kubernetes.io/job-completion-index";
        for added in [json!({ "no": "body" }), json!({ index: "9" })] {
            patch(trial, &json!({ "spec": { "selector": added } })).await?;
            let mended = async || Ok((selector().await? == whole).then_some(()));
            until("the selector to be mended", mended).await?;
        }
        Ok(())
    });
}
