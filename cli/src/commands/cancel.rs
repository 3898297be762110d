//! `cancel`: cancels Flux jobs.

use crate::connection::Connection;
use crate::minicluster::NameArgument;
use crate::output::print;
use crate::rank_pod::RankPod;
use anyhow::{Context as _, Result};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    name: NameArgument,
    /// Ids of the jobs, as `jobs` lists them
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "JOB")]
    jobs: Vec<String>,
    /// Cancel all active jobs
    #[arg(long)]
    all: bool,
}

impl Cancel {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        let jobs: Vec<String> = if self.all {
            let jobs = lead.report(false, None).await?.jobs.into_iter();
            jobs.filter(|job| job.state.is_active()).map(|job| job.id).collect()
        } else {
            self.jobs.clone()
        };
        if jobs.is_empty() {
            print("no active jobs");
            return Ok(());
        }
        cancel(&lead, &jobs).await?;
        print(&format!("cancelled {}", jobs.join(", ")));
        Ok(())
    }
}

pub(crate) async fn cancel(lead: &RankPod, jobs: &[String]) -> Result<()> {
    let mut argv = vec!["cancel"];
    argv.extend(jobs.iter().map(String::as_str));
    let cancelled = lead.flux(&argv).await;
    cancelled.map(drop).with_context(|| format!("cancel {}", jobs.join(", ")))
}
