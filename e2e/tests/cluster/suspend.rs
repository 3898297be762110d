//! MiniClusters that are suspended and resumed.

use crate::replace::{Loss, await_up, lose};
use crate::{
    DEADLINE, apply, await_status, complete, exec, failure, lead_log, ready_lead, trial, until,
};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, logs::times_logged};
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

const FLUX: &str = "/mnt/flux/bin/flux";

/// Waits until the MiniCluster is suspended, with no pod that has not ended.
async fn suspended(trial: &Trial, name: &str) -> Result<MiniCluster> {
    let cluster =
        await_status(trial, name, "suspended", |it| it.state == Some(State::Suspended)).await?;
    let phases = trial.pods(name).await?.into_iter().filter_map(|pod| pod.status?.phase);
    let ended = |phase: &String| ["Failed", "Succeeded"].contains(&phase.as_str());
    let left: Vec<String> = phases.filter(|phase| !ended(phase)).collect();
    ensure!(left.is_empty(), "pods are left: {left:?}");
    Ok(cluster)
}

#[test]
#[ignore = "needs a cluster"]
fn an_instance_with_an_archive_goes_on_where_it_was_at_another_size() {
    trial("pause", &[], async |trial| {
        // A directory of the node is there for whoever comes next.
        let directory = format!("/var/tmp/{}", trial.namespace());
        let spec = format!(
            "{{size: 2, interactive: true, archive: {{path: /state/pause.tgz}}, \
             containers: [{{image: 'ubuntu:24.04', commands: {{runFluxAsRoot: true}}, \
             volumes: {{state: {{path: /state, hostPath: {directory}}}}}}}]}}"
        );
        let name = apply(trial, "pause", &spec).await?;
        let lead = ready_lead(trial, &name).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        let flux =
            |lead: &str, words: &[&str]| exec(trial, lead, &name, &[&[FLUX], words].concat());
        flux(&lead, &["run", "-N2", "hostname"])?;
        flux(&lead, &["submit", "-N2", "sleep", "600"])?;
        flux(&lead, &["submit", "-N2", "hostname"])?;

        trial.edit(&name, &json!({ "suspend": true })).await?;
        let cluster = suspended(trial, &name).await?;
        let (status, reason, _) = condition(&cluster, "Suspended").context("no condition")?;
        ensure!((status, reason) == ("True", "SuspendedBySpecification"), "{status} {reason}");
        trial.api::<ConfigMap>().get("pause-agent").await.context("the ConfigMap stays")?;
        trial.api::<Service>().get("pause-lead").await.context("the Service stays")?;

        trial.edit(&name, &json!({ "suspend": false, "size": 3, "maxSize": 3 })).await?;
        let again = ready_lead(trial, &name).await?;
        ensure!(again != lead, "the lead is the same");
        await_up(trial, &name, "3", DEADLINE).await?;
        flux(&again, &["queue", "idle"])?;
        let jobs = flux(&again, &["jobs", "-a", "-no", "{name} {status}"])?;
        let mut lines: Vec<&str> = jobs.lines().collect();
        lines.sort_unstable();
        ensure!(lines == ["hostname COMPLETED", "hostname COMPLETED", "sleep CANCELED"], "{jobs}");
        exec(trial, &again, &name, &["rm", "/state/pause.tgz"])?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_was_suspended_is_run_again_and_whoever_suspended_it_resumes_it() {
    trial("again", &[], async |trial| {
        let spec =
            "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'echo begun; sleep 20'}]}";
        let name = apply(trial, "again", spec).await?;
        ready_lead(trial, &name).await?;
        trial.edit(&name, &json!({ "suspend": true })).await?;
        let cluster = suspended(trial, &name).await?;
        let code = cluster.status.as_ref().and_then(|status| status.exit_code);
        ensure!(code.is_none(), "a suspension is no end, with {code:?}");
        trial.edit(&name, &json!({ "suspend": false })).await?;
        ready_lead(trial, &name).await?;

        let jobs: Api<Job> = trial.api();
        let set = async |suspend: bool| {
            let patch = Patch::Merge(json!({ "spec": { "suspend": suspend } }));
            jobs.patch(&name, &PatchParams::default(), &patch).await.map(drop)
        };
        set(true).await?;
        let cluster = suspended(trial, &name).await?;
        let (_, reason, _) = condition(&cluster, "Suspended").context("no condition")?;
        ensure!(reason == "JobSuspended", "{reason}");
        set(false).await?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        ensure!(
            times_logged(trial, &name, "begun").await? == 1,
            "of the pods that are left: {log}"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_was_suspended_and_then_loses_its_lead_is_not_run_again() {
    trial("lost-again", &[], async |trial| {
        let spec = "{size: 1, containers: [{image: 'ubuntu:24.04', command: sleep 600}]}";
        let name = apply(trial, "lost-again", spec).await?;
        ready_lead(trial, &name).await?;
        trial.edit(&name, &json!({ "suspend": true })).await?;
        suspended(trial, &name).await?;
        trial.edit(&name, &json!({ "suspend": false })).await?;
        ready_lead(trial, &name).await?;
        lose(trial, &name, 0, Loss::Eviction).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        let (_, reason, message) = failure(&cluster)?;
        ensure!(reason == "LeadLost", "{reason}: {message}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_submitted_command_that_the_archive_has_is_not_submitted_again() {
    trial("kept", &[], async |trial| {
        let directory = format!("/var/tmp/{}", trial.namespace());
        let spec = format!(
            "{{size: 1, interactive: true, archive: {{path: /state/kept.tgz}}, \
             containers: [{{image: 'ubuntu:24.04', command: hostname, \
             commands: {{runFluxAsRoot: true}}, \
             volumes: {{state: {{path: /state, hostPath: {directory}}}}}}}]}}"
        );
        let name = apply(trial, "kept", &spec).await?;
        let lead = ready_lead(trial, &name).await?;
        let jobs = async |lead: &str| {
            until("the command to end", async || {
                let jobs =
                    exec(trial, lead, &name, &[FLUX, "jobs", "-a", "-no", "{name} {status}"]);
                Ok(jobs.ok().filter(|jobs| jobs.contains("hostname COMPLETED")))
            })
            .await
        };
        jobs(&lead).await?;
        trial.edit(&name, &json!({ "suspend": true })).await?;
        suspended(trial, &name).await?;
        trial.edit(&name, &json!({ "suspend": false })).await?;
        let again = ready_lead(trial, &name).await?;
        ensure!(again != lead, "the lead is the same");
        let jobs = jobs(&again).await?;
        ensure!(jobs.trim() == "hostname COMPLETED", "{jobs}");
        exec(trial, &again, &name, &["rm", "/state/kept.tgz"]).map(drop)
    });
}
