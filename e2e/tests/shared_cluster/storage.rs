//! Volumes and disks that are full.

use crate::prelude::*;
use flux_contract::Exit;

const LIMIT: &str = "resources: {limits: {ephemeral-storage: 16Mi}}";

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fills_its_disk_fails_with_reason() {
    trial("full", async |trial| {
        let volume = "volumes: {scratch: {path: /scratch, emptyDir: true, emptyDirMedium: memory, \
                      emptyDirSizeLimit: 1Mi}}";
        let fill = "echo once; head -c 4M /dev/zero > /scratch/full";
        let volume =
            trial.run("volume", "size: 1", &format!("{volume}, command: '{fill}'")).await?;
        // The kubelet notices this later, and evicts the pod.
        let fill = "echo once; head -c 64M /dev/zero > /tmp/full; sleep 600";
        let disk = trial.run("disk", "size: 1", &format!("{LIMIT}, command: '{fill}'")).await?;

        let (code, message) = volume.fails("CommandFailed").await?;
        ensure!(code == Some(1), "{code:?}: {message}");
        let log = volume.log(0).await?;
        ensure!(log.contains("No space left on device"), "log of the lead:\n{log}");

        let (code, message) = disk.fails("Evicted").await?;
        ensure!(message.contains("exceeds the total limit of containers 16Mi"), "{message}");
        // The grace period of such an eviction is a second, which may be too short for the agent.
        let stopped = i32::from(Exit::Stopped.code());
        ensure!(code.is_some_and(|code| [stopped, 137].contains(&code)), "{code:?}: {message}");
        let log = disk.log(0).await?;
        ensure!(!log.lines().any(|line| line == "once"), "the next lead ran it:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn root_without_file_capabilities_runs_flux_in_closed_homes() {
    trial("closed-home", async |trial| {
        let drop =
            "securityContext: {capabilities: {drop: [DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER]}}";
        let home = "volumes: {scratch: {path: /scratch, emptyDir: true}}, fluxUser: {uid: 1000}, \
                    commands: {init: 'mkdir -m 700 /scratch/home && chown 1000:1000 /scratch/home'}";
        let command = "command: 'id -u; touch /scratch/home/here && echo written'";
        let fields = "size: 1, archive: {path: /scratch/home/run.tgz}";
        let run = trial.run("home", fields, &format!("{drop}, {home}, {command}")).await?;
        run.complete().await?;
        let log = run.log(0).await?;
        for line in ["1000", "written"] {
            ensure!(log.lines().any(|it| it == line), "no {line:?} in the log:\n{log}");
        }
        ensure!(log.contains("the state is kept in /scratch/home/run.tgz"), "log:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_that_fills_its_disk_is_replaced() {
    trial("full-worker", async |trial| {
        // A copied view takes 120 MB of it.
        let limit = "resources: {limits: {ephemeral-storage: 256Mi}}";
        let run = trial.run("full-worker", "size: 2, interactive: true", limit).await?;
        let lead = run.ready_with(2).await?;
        let worker = run.pod(1).await?;
        run.exec(1, &["sh", "-c", "head -c 512M /dev/zero > /tmp/full"]).await?;
        run.another(1, &worker).await?;
        run.up(2).await?;
        ensure!(run.ready().await? == lead, "the lead is another one");
        let fields = format!("involvedObject.name={},reason=Evicted", worker.name_any());
        ensure!(!run.events(&fields)?.is_empty(), "it was not evicted");
        Ok(())
    });
}
