//! `attach`: follows the output of a Flux job.

use crate::connection::Connection;
use crate::exec::{self, Streams};
use crate::exit::INTERRUPTED;
use crate::minicluster::NameArgument;
use crate::output::print_stderr;
use crate::rank_pod::RankPod;
use crate::retry::repeated;
use anyhow::{Context as _, Result};
use clap::Args;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Attach {
    #[command(flatten)]
    name: NameArgument,
    /// Id of the job, as `jobs` lists it
    job: String,
}

impl Attach {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        follow(&lead, &self.job).await.map(ExitCode::from)
    }
}

/// Prints the output of a job and returns its exit code. An interrupt does not end the job.
pub(crate) async fn follow(lead: &RankPod, job: &str) -> Result<u8> {
    tokio::select! {
        code = print_output(lead, job) => code,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("wait for an interrupt")?;
            let name = &lead.target.name;
            print_stderr(&format!(
                "job {job} is still running: `kubectl flux attach {name} {job}` follows it again, \
                 `kubectl flux cancel {name} {job}` cancels it"
            ));
            Ok(INTERRUPTED)
        }
    }
}

/// Prints the output of a job over as many connections as it takes: Flux sends the whole output to each of them.
async fn print_output(lead: &RankPod, job: &str) -> Result<u8> {
    // With --read-only Flux reads no input and passes no signals to the job.
    let argv = [lead.flux.as_str(), "job", "attach", "--read-only", job];
    let (streams, mut printed) = (Streams::default(), Default::default());
    let connect =
        async || exec::share(&lead.target, &lead.name, &argv, streams, &mut printed).await;
    repeated(u32::MAX, "connecting again", connect).await
}
