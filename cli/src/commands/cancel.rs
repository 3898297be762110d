//! `cancel`: ends jobs of Flux.

use crate::connection::Connection;
use crate::instance::Place;
use crate::output::print;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result};
use clap::Args;
use flux_contract::instance::JobReport;
use std::process::ExitCode;

/// `cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    name: NameArgument,
    /// Ids of the jobs, as `jobs` lists them
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "JOB")]
    jobs: Vec<String>,
    /// All jobs that have not ended
    #[arg(long)]
    all: bool,
}

impl Cancel {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::lead(Target::new(connection, &self.name.name)).await?;
        let jobs = if self.all {
            active(&place.report(false, None).await?.jobs)
        } else {
            self.jobs.clone()
        };
        if jobs.is_empty() {
            print("there is no job that has not ended");
            return Ok(ExitCode::SUCCESS);
        }
        cancel(&place, &jobs).await?;
        print(&format!("cancelled {}", jobs.join(", ")));
        Ok(ExitCode::SUCCESS)
    }
}

fn active(jobs: &[JobReport]) -> Vec<String> {
    jobs.iter().filter(|job| job.state.is_active()).map(|job| job.id.clone()).collect()
}

/// Cancels these jobs.
pub(crate) async fn cancel(place: &Place, jobs: &[String]) -> Result<()> {
    let mut words = vec!["cancel"];
    words.extend(jobs.iter().map(String::as_str));
    let cancelled = place.flux(&words).await;
    cancelled.map(drop).with_context(|| format!("cancel {}", jobs.join(", ")))
}
