//! `attach`: the output of a job of Flux.

use crate::connection::Connection;
use crate::exec::{self, INTERRUPTED};
use crate::instance::Place;
use crate::output::complain;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result};
use clap::Args;
use std::process::ExitCode;

/// `attach`.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    #[command(flatten)]
    name: NameArgument,
    /// Id of the job, as `jobs` lists it
    job: String,
}

impl Attach {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::lead(Target::new(connection, &self.name.name)).await?;
        follow(&place, &self.job).await.map(ExitCode::from)
    }
}

/// Prints what the job prints, and returns its exit code. An interrupt ends this, and not the job.
pub(crate) async fn follow(place: &Place, job: &str) -> Result<u8> {
    let pod = place.pod_name();
    // It reads no input and passes on no signal.
    let words = [place.flux.as_str(), "job", "attach", "--read-only", job];
    tokio::select! {
        code = exec::pass_through(&place.target, &pod, &words, false) => code,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("wait for an interrupt")?;
            let name = &place.target.name;
            complain(&format!(
                "the job {job} goes on: `kubectl flux attach {name} {job}` follows it again, \
                 `kubectl flux cancel {name} {job}` ends it"
            ));
            Ok(INTERRUPTED)
        }
    }
}
