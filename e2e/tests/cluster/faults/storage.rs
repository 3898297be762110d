//! Volumes and disks that are full.

use super::run;
use crate::{DEADLINE, failure, lead_log, trial};
use anyhow::ensure;
use flux_contract::Exit;

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
