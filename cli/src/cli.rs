//! The command line.

use crate::commands::{
    burst, completion, cp, delete, doctor, exec, explain, jobs, list, logs, migrate, render,
    report, resources, resubmit, run, status, submit, suspend, top, trace, ui, validate, version,
    wait,
};
use crate::connection::{Connection, ConnectionArguments};
use crate::exit::{FAILED, NOT_RUN};
use crate::minicluster::{NameArgument, NamesArgument};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Runs, watches and explains MiniClusters, and enters them.
#[derive(Debug, Parser)]
#[command(name = "kubectl-flux", bin_name = "kubectl flux", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for failure, 2 for a wrong command line. `run`, `exec`, `shell`, `flux`, \
`attach` and `submit --watch` end with the exit code of the program, or with 125 if they could not run it."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub connection: ConnectionArguments,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in a new MiniCluster, print its output, and end with its exit code
    Run(Box<run::Run>),
    /// List MiniClusters
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Show state, ranks and timings of a MiniCluster
    Status(status::Status),
    /// Explain why a MiniCluster does not run or has failed, and what to do
    Explain(explain::Explain),
    /// Print the output of all ranks in order of time
    Logs(logs::Logs),
    /// List the Flux jobs of a MiniCluster
    Jobs(jobs::Jobs),
    /// Show cores and GPUs of each rank, how many are allocated, and which ranks are drained
    Resources(resources::Resources),
    /// Show ranks, queue and jobs, updated every second
    Top(NameArgument),
    /// Open the page of a running MiniCluster in a browser: ranks, queue, jobs and their output
    Ui(ui::Ui),
    /// Submit a job to a running MiniCluster
    Submit(submit::Submit),
    /// Cancel jobs
    Cancel(jobs::Cancel),
    /// Follow the output of a job, and end with the job's exit code
    Attach(submit::Attach),
    /// Open a shell in the pod of a rank, as Flux's user
    Shell(exec::Shell),
    /// Run a command in one rank or in all, as Flux's user
    Exec(exec::Exec),
    /// Run any command of Flux in the lead, as Flux's user: `kubectl flux flux hello -- jobs -a`
    Flux(exec::Flux),
    /// Copy files to or from a rank; the image needs no tar
    Cp(cp::Cp),
    /// Check all ranks, and print what is wrong and what to do about it
    Doctor(doctor::Doctor),
    /// Change the number of pods
    Scale(suspend::Scale),
    /// Suspend a MiniCluster: its pods are deleted
    Suspend(NamesArgument),
    /// Resume a suspended MiniCluster
    Resume(NamesArgument),
    /// Delete MiniClusters
    Delete(delete::Delete),
    /// Wait until a MiniCluster is ready or has ended
    Wait(wait::Wait),
    /// Create a new MiniCluster with the specification of another, and print its name
    Resubmit(resubmit::Resubmit),
    /// Let a second MiniCluster, usually in another Kubernetes cluster, join a running one
    Burst(Box<burst::Burst>),
    /// Write objects, Events, logs and the state of Flux into one archive, for a bug report
    Report(report::Report),
    /// Show when each rank started, what it did, and when it ended
    Trace(trace::Trace),
    /// Check files without a cluster, and print every fault with its line
    Validate(validate::Validate),
    /// Print the objects that the operator would create from a file, without a cluster
    Render(render::Render),
    /// Convert a file for the operator in Go into one for this operator
    Migrate(migrate::Migrate),
    /// Print the versions of this plugin and of the operator
    Version(version::Version),
    /// Print the completion script of a shell
    Completion(completion::Completion),
}

impl Command {
    pub(crate) fn failure_code(&self) -> u8 {
        let ends_with_another_code = matches!(
            self,
            Self::Run(_) | Self::Attach(_) | Self::Exec(_) | Self::Shell(_) | Self::Flux(_)
        ) || matches!(self, Self::Submit(submit) if submit.watches());
        if ends_with_another_code { NOT_RUN } else { FAILED }
    }

    pub(crate) async fn execute(self, arguments: &ConnectionArguments) -> Result<ExitCode> {
        let connect = async || Connection::new(arguments).await;
        match self {
            Self::Run(run) => return Box::pin(run.execute(connect)).await,
            Self::List(list) => return list.execute(connect().await?).await,
            Self::Status(status) => return status.execute(connect().await?).await,
            Self::Explain(explain) => explain.execute(connect().await?).await?,
            Self::Logs(logs) => Box::pin(logs.execute(connect().await?)).await?,
            Self::Jobs(jobs) => jobs.execute(connect().await?).await?,
            Self::Resources(resources) => resources.execute(connect().await?).await?,
            Self::Top(name) => Box::pin(top::top(connect().await?, &name)).await?,
            Self::Ui(ui) => Box::pin(ui.execute(connect().await?)).await?,
            Self::Submit(submit) => return Box::pin(submit.execute(connect().await?)).await,
            Self::Cancel(cancel) => cancel.execute(connect().await?).await?,
            Self::Attach(attach) => return Box::pin(attach.execute(connect().await?)).await,
            Self::Shell(shell) => return Box::pin(shell.execute(connect().await?)).await,
            Self::Exec(exec) => return Box::pin(exec.execute(connect().await?)).await,
            Self::Flux(flux) => return Box::pin(flux.execute(connect().await?)).await,
            Self::Cp(cp) => Box::pin(cp.execute(connect().await?)).await?,
            Self::Doctor(doctor) => return doctor.execute(connect().await?).await,
            Self::Scale(scale) => return Ok(scale.execute(connect().await?).await),
            Self::Suspend(names) => return Ok(suspend::suspend(&connect().await?, &names).await),
            Self::Resume(names) => return Ok(suspend::resume(&connect().await?, &names).await),
            Self::Delete(delete) => return delete.execute(connect().await?).await,
            Self::Wait(wait) => return Ok(wait.execute(connect().await?).await),
            Self::Resubmit(resubmit) => resubmit.execute(connect().await?).await?,
            Self::Burst(burst) => Box::pin(burst.execute(connect().await?, arguments)).await?,
            Self::Report(report) => Box::pin(report.execute(connect().await?)).await?,
            Self::Trace(trace) => Box::pin(trace.execute(connect().await?)).await?,
            Self::Validate(validate) => return Box::pin(validate.execute(connect)).await,
            Self::Render(render) => {
                return render.execute(arguments.namespace.as_deref().unwrap_or("default"));
            }
            Self::Migrate(migrate) => return migrate.execute(),
            Self::Version(version) => version.execute(connect).await?,
            Self::Completion(completion) => completion.execute()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
