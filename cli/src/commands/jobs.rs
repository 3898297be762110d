//! `jobs`: lists Flux jobs.

use crate::connection::Connection;
use crate::minicluster::NameArgument;
use crate::output::{FormatArgument, duration, paint, print, print_stderr, table};
use crate::rank_pod::RankPod;
use anstyle::AnsiColor;
use anyhow::Result;
use clap::Args;
use flux_contract::instance::JobReport;
use flux_protocol::job::JobStatus;

#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    name: NameArgument,
    /// Also list jobs that have ended
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    format: FormatArgument,
}

impl Jobs {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        let jobs = lead.report(self.all, None).await?.jobs;
        if self.format.print(&jobs, jobs.iter().map(|job| job.id.clone()))? {
            return Ok(());
        }
        if jobs.is_empty() {
            print_stderr(if self.all { "no jobs" } else { "no active jobs: `-a` lists all jobs" });
        } else {
            print(&text(&jobs));
        }
        Ok(())
    }
}

fn text(jobs: &[JobReport]) -> String {
    let rows = jobs.iter().map(|job| {
        vec![
            job.id.clone(),
            job.user.clone(),
            job.name.clone(),
            paint(colour(job.state), &job.state.to_string()),
            job.tasks.to_string(),
            job.nodes.map_or_else(|| "-".to_owned(), |nodes| nodes.to_string()),
            job.ranks.clone().unwrap_or_else(|| "-".to_owned()),
            duration(job.seconds),
        ]
    });
    table(&["JOBID", "USER", "NAME", "STATE", "TASKS", "NODES", "RANKS", "TIME"], rows)
}

const fn colour(state: JobStatus) -> AnsiColor {
    match state {
        JobStatus::Run | JobStatus::Completed => AnsiColor::Green,
        JobStatus::Failed | JobStatus::Canceled | JobStatus::Timeout => AnsiColor::Red,
        JobStatus::Depend | JobStatus::Sched | JobStatus::Cleanup => AnsiColor::Yellow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_a_row() {
        let jobs = crate::fixtures::report().jobs;
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&jobs)), @r"
        JOBID  USER  NAME    STATE  TASKS  NODES  RANKS  TIME
        ƒ3     flux  wait    SCHED  4      -      -      5.0s
        ƒ2     flux  lammps  RUN    4      2      0-1    1m15s
        ");
    }
}
