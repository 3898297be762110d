//! Volumes and disks that are full.

use super::run;
use crate::{DEADLINE, failure, lead_log, trial};
use anyhow::ensure;
use flux_contract::Exit;

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fills_its_volume_or_its_disk_fails_and_is_told_why() {
    trial("full", &[], async |trial| {
        let volume = "emptyDir: true, emptyDirSizeLimit: 1Mi";
        let fill = |more: &str, mebibytes: u32, path: &str, after: &str| {
            format!(
                "{more}, command: 'echo once; head -c {mebibytes}M /dev/zero > {path}/full{after}'"
            )
        };
        let memory =
            format!("volumes: {{scratch: {{path: /scratch, {volume}, emptyDirMedium: memory}}}}");
        let disk = format!("volumes: {{scratch: {{path: /scratch, {volume}}}}}");
        let limit = "resources: {limits: {ephemeral-storage: 16Mi}}";
        run(trial, "memory", "size: 1", &fill(&memory, 4, "/scratch", "")).await?;
        // The kubelet notices these, and takes the pods away.
        run(trial, "volume", "size: 1", &fill(&disk, 40, "/scratch", "; sleep 600")).await?;
        run(trial, "disk", "size: 1", &fill(limit, 64, "/tmp", "; sleep 600")).await?;

        let cluster = trial.await_finished("memory", DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(1), "CommandFailed"), "{code:?} {reason}: {message}");
        let log = lead_log(trial, "memory").await?;
        ensure!(log.contains("No space left on device"), "log of the lead:\n{log}");
        for (name, what) in [("volume", "EmptyDir volume"), ("disk", "total limit of containers")] {
            let cluster = trial.await_finished(name, DEADLINE).await?;
            let (code, reason, message) = failure(&cluster)?;
            ensure!(reason == "Evicted" && message.contains(what), "{code:?} {reason}: {message}");
            // As the grace period of such an eviction is short, the agent may be killed before its end.
            let stopped = Some(i32::from(Exit::Stopped.code()));
            ensure!([stopped, Some(137)].contains(&code), "{code:?} {reason}: {message}");
        }
        Ok(())
    });
}
