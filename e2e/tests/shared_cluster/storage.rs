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
