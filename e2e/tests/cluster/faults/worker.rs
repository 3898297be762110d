//! Workers whose processes are killed, or that have another certificate than the lead.

use super::{agent_status, each_once, end_of, go, kill_broker, run, said};
use crate::replace::{BACK_WITHIN, await_up};
use crate::{DEADLINE, apply, await_status, complete, lead_log, ready_lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, logs::container_log};
use flux_contract::CurveCertificate;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

/// What a command does when its worker is whole again.
const THEN: &str =
    "until test -e /tmp/go; do sleep 0.2; done; flux run -N2 -n2 hostname; echo done";

/// The kernel kills the largest process of a container that exceeds its memory, or, with version 2 of control
/// groups, all of them: in the first case the job fails and the pod stays, in the other one the pod is replaced.
#[test]
#[ignore = "needs a cluster"]
fn a_worker_that_runs_out_of_memory_is_used_again_and_the_command_goes_on() {
    trial("memory-out", &[], async |trial| {
        let job = r#"flux run -N2 -n2 sh -c "test \$FLUX_TASK_RANK = 0 || tail /dev/zero""#;
        let container = format!(
            "launcher: true, resources: {{limits: {{memory: 256Mi}}}}, \
             command: 'echo begun; {job}; echo it ended with $?; {THEN}'"
        );
        let name = run(trial, "greedy", "size: 2", &container).await?;
        let before = said(trial, &name, 1, "starting the broker").await?;
        said(trial, &name, 0, "it ended with ").await?;
        await_up(trial, &name, "2", BACK_WITHIN * 2).await?;
        let after = trial.pod(&name, 1).await?.context("no worker")?;
        go(trial, &name, 0).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        each_once(&log, &["begun", "greedy-0", "greedy-1", "done"])?;
        if after.uid() == before.uid() {
            each_once(&log, &["it ended with 137"])?;
        } else {
            let before: Pod = trial.api().get(&before.name_any()).await?;
            let reason = end_of(&before, &name).and_then(|end| end.reason.clone());
            ensure!(reason.as_deref() == Some("OOMKilled"), "the first worker: {reason:?}");
            ensure!(!log.contains("it ended with 0"), "the job ended well:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_workers_broker_that_is_killed_is_started_again_in_its_pod() {
    trial("broker", &[], async |trial| {
        let container = format!("launcher: true, command: 'echo begun; {THEN}'");
        let name = run(trial, "broker", "size: 2", &container).await?;
        let lead = ready_lead(trial, &name).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        let worker = trial.pod(&name, 1).await?.context("no worker")?.name_any();
        kill_broker(trial, &worker, &name)?;
        let restarted = until("the broker to be started again", async || {
            let status = agent_status(trial, &worker, &name)?;
            Ok((status["restarts"] == 1 && status["brokerState"] == "run").then_some(status))
        })
        .await?;
        ensure!(restarted["ready"] == true, "{restarted}");
        await_up(trial, &name, "2", BACK_WITHIN).await?;
        ensure!(ready_lead(trial, &name).await? == lead, "the lead is another one");
        go(trial, &name, 0).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        each_once(&log, &["begun", "broker-0", "broker-1", "done"])?;
        Ok(())
    });
}

/// Puts the certificate with this secret key into the Secret `keys`.
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
fn a_worker_with_another_certificate_than_the_lead_waits_and_harms_nobody() {
    trial("certificate", &[], async |trial| {
        put_certificate(trial, 1).await?;
        let more = "size: 1, maxSize: 2, flux: {curveCertSecret: keys}";
        let container = format!("launcher: true, command: 'echo begun; {THEN}'");
        let name = run(trial, "keys", more, &container).await?;
        ready_lead(trial, &name).await?;
        put_certificate(trial, 2).await?;
        trial.edit(&name, &json!({ "size": 2 })).await?;
        let worker = said(trial, &name, 1, "certificate").await?;
        let log = container_log(trial, &worker, &name).await?;
        ensure!(log.contains("WARNING: waiting for the lead broker"), "log of the worker:\n{log}");
        let cluster = await_status(trial, &name, "of size 2", |status| status.size == 2).await?;
        let (status, _, message) = condition(&cluster, "Ready").context("no condition")?;
        let told = "1 of 2 brokers are ready: the logs of the other pods say why";
        ensure!(status == "True" && message.contains(told), "{status}: {message}");
        put_certificate(trial, 1).await?;
        trial.api::<Pod>().delete(&worker.name_any(), &DeleteParams::default()).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        go(trial, &name, 0).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        each_once(&log, &["begun", "keys-0", "keys-1", "done"])
    });
}

/// What listens where the kubelet asks whether the pod is ready, and knows nothing of that.
const SQUATTER: &str = "server { listen 18049; return 404; }";
/// With the above in a sidecar that listens before the agent can.
const TAKEN: &str = r#"{size: 1, containers: [
    {image: 'ubuntu:24.04', command: 'echo begun; until test -e /tmp/go; do sleep 0.2; done; hostname'},
    {name: squatter, image: 'nginx:1', runFlux: false,
     lifeCycle: {postStartExec: "sh -c 'until curl -s http://127.0.0.1:18049; do sleep 0.1; done'"},
     volumes: {squatter: {path: /etc/nginx/conf.d, configMapName: squatter, items: {squatter: squatter.conf}}}},
]}"#;

#[test]
#[ignore = "needs a cluster"]
fn a_pod_whose_port_another_program_has_is_not_ready_and_its_command_runs() {
    trial("port", &[], async |trial| {
        let squatter = ConfigMap {
            metadata: ObjectMeta { name: Some("squatter".to_owned()), ..ObjectMeta::default() },
            data: Some([("squatter".to_owned(), SQUATTER.to_owned())].into()),
            ..ConfigMap::default()
        };
        trial.api().create(&PostParams::default(), &squatter).await?;
        let name = apply(trial, "taken", TAKEN).await?;
        let pod = said(trial, &name, 0, "begun").await?.name_any();
        said(trial, &name, 0, "listen at port 18049").await?;
        let fields = format!("involvedObject.name={pod},reason=Unhealthy");
        let refused = ListParams::default().fields(&fields);
        until("the kubelet to be refused", async || {
            let events = trial.api::<Event>().list(&refused).await?.items;
            let message = |event: &Event| event.message.clone().unwrap_or_default();
            Ok(events.iter().any(|event| message(event).contains("404")).then_some(()))
        })
        .await?;
        let told = await_status(trial, &name, "known", |status| status.state.is_some()).await?;
        let status = told.status.context("no status")?;
        ensure!(status.ready_brokers == 0, "{status:?}");
        go(trial, &name, 0).await?;
        complete(trial, &name).await?;
        each_once(&lead_log(trial, &name).await?, &["begun", "taken-0"])
    });
}
