//! `jobs`: the jobs of Flux.

use crate::connection::Connection;
use crate::instance::{Place, duration};
use crate::output::{FormatArgument, complain, paint, print, table};
use crate::target::{NameArgument, Target};
use anstyle::AnsiColor;
use anyhow::Result;
use clap::Args;
use flux_contract::instance::JobReport;
use flux_protocol::job::JobStatus;
use std::process::ExitCode;

/// `jobs`.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    #[command(flatten)]
    name: NameArgument,
    /// Also those that have ended
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    format: FormatArgument,
}

impl Jobs {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::lead(Target::new(connection, &self.name.name)).await?;
        let jobs = place.report(self.all, None).await?.jobs;
        let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
        if self.format.print(&jobs, &ids)? {
            return Ok(ExitCode::SUCCESS);
        }
        if jobs.is_empty() {
            let hint = if self.all { "" } else { " that has not ended: `-a` lists all" };
            complain(&format!("there is no job{hint}"));
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

/// The colour of what a state means.
pub(crate) const fn colour(state: JobStatus) -> AnsiColor {
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
    fn a_job_is_a_line() {
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
        let jobs = [job("ƒ2", JobStatus::Sched, None), job("ƒ1", JobStatus::Run, Some("0-1"))];
        let plain = anstream::adapter::strip_str(&text(&jobs)).to_string();
        insta::assert_snapshot!(plain, @r"
        JOBID  USER  NAME   STATE  TASKS  NODES  RANKS  TIME
        ƒ2     flux  sleep  SCHED  4      -      -      1m01s
        ƒ1     flux  sleep  RUN    4      2      0-1    1m01s
        ");
    }
}
