//! The jobs of an instance of two brokers whose lead is lost without a stop (`archive.everySeconds`).

use super::instance::{Instance, sorted, until_true};
use anyhow::{Result, ensure};

/// The archive of such an instance, on a volume that outlives its pods.
pub const ARCHIVE: &str = "/state/hard.tgz";

impl Instance<'_> {
    /// Lets a job end, one run and one wait, until a checkpoint has them; returns the id of the one that runs.
    pub async fn jobs_in_checkpoint(&self) -> Result<String> {
        self.flux(&["run", "-N2", "hostname"]).await?;
        let running = self.flux(&["submit", "-N2", "--exclusive", "sleep", "600"]).await?;
        self.flux(&["submit", "-N2", "uname"]).await?;
        // The first one may have begun before.
        for _ in 0..2 {
            self.exec(0, &["touch", "/tmp/before"]).await?;
            let newer = format!("test {ARCHIVE}.checkpoint -nt /tmp/before && echo newer || :");
            until_true("a newer checkpoint", async || {
                Ok(self.exec(0, &["sh", "-c", &newer]).await?.trim() == "newer")
            })
            .await?;
        }
        Ok(running)
    }

    /// Waits until its next lead has run the job that waited, and has named the one that ran as lost.
    pub async fn goes_on_from_checkpoint(&self, lost: &str) -> Result<()> {
        self.printed(0, &format!("jobs that ran then are lost (1): {lost}")).await?;
        self.up(2).await?;
        self.flux(&["queue", "idle"]).await?;
        let jobs = self.flux(&["jobs", "-a", "-no", "{name} {status} {exception.type}"]).await?;
        let jobs: Vec<_> = sorted(&jobs).into_iter().map(str::trim).collect();
        ensure!(jobs == ["hostname COMPLETED", "sleep FAILED lost", "uname COMPLETED"], "{jobs:?}");
        Ok(())
    }
}
