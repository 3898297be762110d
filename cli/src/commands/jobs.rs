//! `jobs` and `cancel`: list and cancel Flux jobs.

use crate::output::{duration, or_dash, paint, table};
use crate::prelude::*;
use crate::rank_pod::RankPod;
use anstyle::AnsiColor;
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
        let lead = self.name.lead(connection).await?;
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
        let lead = self.name.lead(connection).await?;
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

fn text(jobs: &[JobReport]) -> String {
    let rows = jobs.iter().map(|job| {
        vec![
            job.id.clone(),
            job.user.clone(),
            job.name.clone(),
            paint(colour(job.state), &job.state.to_string()),
            job.tasks.to_string(),
            or_dash(job.nodes),
            or_dash(job.ranks.as_ref()),
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
