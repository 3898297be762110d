//! The connection from workers to the lead: its Service, and the certificates of both.

use crate::prelude::*;
use flux_contract::OVERLAY_PORT;
use flux_protocol::CurveCertificate;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use tokio::time::{Instant, sleep_until};

/// With this label kube-proxy ignores a Service, because another program should serve it. There is no such program.
const PROXY: &str = "service.kubernetes.io/service-proxy-name";
const SERVICE: &str = "service/way-lead";
/// How long the Service leads nowhere.
const AWAY: Duration = Duration::from_secs(20);

/// Meanwhile the agents find the lead by its name; later they use the Service's address again. The operator also restores
/// a selector that somebody changes.
#[test]
#[ignore = "needs a cluster"]
fn workers_start_and_go_on_without_the_leads_service() {
    trial("way", async |trial| {
        let run = trial.run("way", "size: 1, maxSize: 2, interactive: true", "").await?;
        let lead = run.ready().await?;
        let begun = Instant::now();
        run.patch(SERVICE, &json!({ "metadata": { "labels": { PROXY: "nobody" } } }))?;
        let of_service =
            |field: &str| run.kubectl(&["get", SERVICE, &format!("-ojsonpath={{.spec.{field}}}")]);
        let address = of_service("clusterIP")?;
        let connect = format!("exec 3<>/dev/tcp/{address}/{OVERLAY_PORT}");
        let leads_there =
            async || run.exec(0, &["timeout", "1", "bash", "-c", &connect]).await.is_ok();
        until_true("the Service to lead nowhere", async || Ok(!leads_there().await)).await?;
        run.edit(&json!({ "size": 2 }))?;
        run.up(2).await?;
        let log = run.log(1).await?;
        ensure!(log.contains("its name led there first"), "the Service led there:\n{log}");
        sleep_until(begun + AWAY).await;
        run.patch(SERVICE, &json!({ "metadata": { "labels": { PROXY: null } } }))?;
        run.up(2).await?;
        let status = run.agent_status(1).await?;
        ensure!(status["restarts"] == 0, "{status}");
        ensure!(run.ready().await? == lead, "the lead is another one");
        until_true("the Service to lead there", async || Ok(leads_there().await)).await?;
        let kill = "kill -9 $(/mnt/flux/bin/flux getattr broker.pid)";
        run.exec(1, &["sh", "-c", kill]).await?;
        run.printed(1, "its address led there first").await?;
        run.up(2).await?;

        let whole = of_service("selector")?;
        let index = "batch.kubernetes.io/job-completion-index";
        for added in [json!({ "no": "body" }), json!({ index: "9" })] {
            run.patch(SERVICE, &json!({ "spec": { "selector": added } }))?;
            let repaired = async || Ok(of_service("selector")? == whole);
            until_true("the selector to be repaired", repaired).await?;
        }
        Ok(())
    });
}

async fn put_certificate(trial: &Trial, key: u8) -> Result<()> {
    let certificate = CurveCertificate::new("faults", [key; 32])?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" },
        "stringData": { "curve.cert": certificate.to_text().expose() },
    });
    let parameters = PatchParams::apply("e2e").force();
    trial.api::<Secret>().patch("keys", &parameters, &Patch::Apply(&secret)).await?;
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_with_another_certificate_only_waits() {
    trial("certificate", async |trial| {
        put_certificate(trial, 1).await?;
        let fields = "size: 1, maxSize: 2, flux: {curveCertSecret: keys}";
        let run = trial.run("keys", fields, &then_on(2)).await?;
        run.ready().await?;
        put_certificate(trial, 2).await?;
        run.edit(&json!({ "size": 2 }))?;
        run.printed(1, "WARNING: waiting for the lead broker").await?;
        let words = "1 of 2 brokers are ready: the logs of the other pods show why";
        let condition = run.await_condition("Ready", words).await?;
        ensure!(condition.status == "True", "{condition:?}");
        put_certificate(trial, 1).await?;
        run.delete_pod(1).await?;
        run.up(2).await?;
        run.ends_on(2).await
    });
}
