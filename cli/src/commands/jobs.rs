//! `jobs`: lists Flux jobs.

use crate::connection::Connection;
use crate::minicluster::NameArgument;
use crate::output::{FormatArgument, duration, paint, print, print_stderr, table};
use crate::rank_pod::RankPod;
use anstyle::AnsiColor;
use anyhow::Result;
use clap::Args;
use flux_contract::instance::{JobReport, JobState};
use std::process::ExitCode;

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
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        let jobs = lead.report(self.all, None).await?.jobs;
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        if self.format.print(&jobs, &ids)? {
            return Ok(ExitCode::SUCCESS);
        }
        if jobs.is_empty() {
            print_stderr(if self.all { "no jobs" } else { "no active jobs: `-a` lists all jobs" });
        } else {
            print(&text(&jobs));
        }
        Ok(ExitCode::SUCCESS)
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

/// The colour of a state.
const fn colour(state: JobState) -> AnsiColor {
    match state {
        JobState::Run | JobState::Completed => AnsiColor::Green,
        JobState::Failed | JobState::Canceled | JobState::Timeout => AnsiColor::Red,
        JobState::Depend | JobState::Sched | JobState::Cleanup => AnsiColor::Yellow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_a_row() {
        let job = |id: &str, state, ranks: Option<&str>| JobReport {
            id: id.to_owned(),
            user: "flux".to_owned(),
            name: "sleep".to_owned(),
            state,
            tasks: 4,
            nodes: ranks.map(|_| 2),
            ranks: ranks.map(str::to_owned),
            seconds: 61.0,
        };
        let jobs = [job("ƒ2", JobState::Sched, None), job("ƒ1", JobState::Run, Some("0-1"))];
        let plain = anstream::adapter::strip_str(&text(&jobs)).to_string();
        insta::assert_snapshot!(plain, @r"
        JOBID  USER  NAME   STATE  TASKS  NODES  RANKS  TIME
        ƒ2     flux  sleep  SCHED  4      -      -      1m01s
        ƒ1     flux  sleep  RUN    4      2      0-1    1m01s
        ");
    }
}
