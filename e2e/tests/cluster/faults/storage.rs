//! Volumes and disks that are full.

use super::run;
use crate::replace::await_up;
use crate::{DEADLINE, exec, failure, lead_log, ready_lead, trial, until};
use anyhow::{Context as _, ensure};
use flux_contract::Exit;
use k8s_openapi::api::core::v1::Event;
use kube::{ResourceExt as _, api::ListParams};

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fills_its_volume_or_its_disk_fails_and_is_told_why() {
    trial("full", &[], async |trial| {
        let volume = "volumes: {scratch: {path: /scratch, emptyDir: true, emptyDirMedium: memory, \
                      emptyDirSizeLimit: 1Mi}}";
        let fill = "echo once; head -c 4M /dev/zero > /scratch/full";
        run(trial, "volume", "size: 1", &format!("{volume}, command: '{fill}'")).await?;
        // The kubelet notices this later, and takes the pod away.
        let limit = "resources: {limits: {ephemeral-storage: 16Mi}}";
        let fill = "echo once; head -c 64M /dev/zero > /tmp/full; sleep 600";
        run(trial, "disk", "size: 1", &format!("{limit}, command: '{fill}'")).await?;

        let cluster = trial.await_finished("volume", DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(1), "CommandFailed"), "{code:?} {reason}: {message}");
        let log = lead_log(trial, "volume").await?;
        ensure!(log.contains("No space left on device"), "log of the lead:\n{log}");

        let cluster = trial.await_finished("disk", DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!(reason == "Evicted", "{code:?} {reason}: {message}");
        ensure!(message.contains("exceeds the total limit of containers 16Mi"), "{message}");
        // The grace period of such an eviction is a second: the agent may not come to its end.
        let stopped = i32::from(Exit::Stopped.code());
        ensure!(code.is_some_and(|code| [stopped, 137].contains(&code)), "{code:?}: {message}");
        let log = lead_log(trial, "disk").await?;
        ensure!(!log.lines().any(|line| line == "once"), "the next lead ran it:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_that_fills_its_disk_is_evicted_and_made_anew() {
    trial("full-worker", &[], async |trial| {
        let limit = "resources: {limits: {ephemeral-storage: 16Mi}}";
        let name = run(trial, "full-worker", "size: 2, interactive: true", limit).await?;
        let lead = ready_lead(trial, &name).await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        let worker = trial.pod(&name, 1).await?.context("no worker")?;
        let fill = "head -c 64M /dev/zero > /tmp/full";
        exec(trial, &worker.name_any(), &name, &["sh", "-c", fill])?;
        until("another worker", async || {
            let pod = trial.pod(&name, 1).await?;
            Ok(pod.filter(|pod| pod.uid() != worker.uid()).map(drop))
        })
        .await?;
        await_up(trial, &name, "2", DEADLINE).await?;
        ensure!(ready_lead(trial, &name).await? == lead, "the lead is another one");
        let fields = format!("involvedObject.name={},reason=Evicted", worker.name_any());
        let events = trial.api::<Event>().list(&ListParams::default().fields(&fields)).await?;
        ensure!(!events.items.is_empty(), "it was not evicted");
        Ok(())
    });
}
