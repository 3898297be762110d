//! The command line of the test harness; `cli.rs` has the arguments that name a cluster.

use crate::architecture::Architecture;
use crate::cli::ClusterArguments;
use crate::cluster::{Cluster, ClusterChoice};
use crate::demo::demo;
use crate::environment::Environment;
use crate::interruption::{self, Scope};
use crate::kubernetes::Kubernetes;
use crate::product::{chart, dockerfiles};
use crate::progress;
use crate::verify::{self, verify};
use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser};
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

/// Runs the project on a real cluster.
#[derive(Debug, Parser)]
#[command(name = "e2e")]
enum Command {
    /// Set everything up and run the hello-world example.
    Demo(ClusterArguments),
    /// Set everything up and run the checks and tests of a change; with --all every one.
    Verify(verify::Arguments),
    /// Build the images that are shipped from their Dockerfiles, for every architecture, into target/images.
    Images,
    /// Render the manifests in deploy/ from the chart. Builds helm.
    Manifests,
    /// Start the cluster on this machine, or check that it runs.
    Up(ClusterArguments),
    /// End the cluster on this machine and everything it has left there.
    Down(ClusterArguments),
    /// Run kubectl as the cluster's administrator.
    Kubectl {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// kubectl's arguments.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// The command line as a value: a test checks the command lines of the pages against it.
pub fn command_line() -> clap::Command {
    Command::command()
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    exit_code(Command::parse().run())
}

/// Prints the error of a program that has failed, and returns the program's exit code.
pub fn exit_code(ended: Result<ExitCode>) -> ExitCode {
    interruption::await_end();
    ended.unwrap_or_else(|error| {
        progress::print_error(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        match self {
            Self::Demo(cluster) => {
                let target = guarded(&cluster)?;
                demo(&Environment::prepare(&target, true)?)?;
            }
            Self::Verify(arguments) => verify(&arguments)?,
            Self::Images => {
                let images = dockerfiles::build(&Architecture::ALL)?;
                progress::print(&images.directory.display().to_string());
            }
            Self::Manifests => chart::write_rendered()?,
            Self::Up(cluster) => {
                let cluster = Cluster::up(&guarded(&cluster)?)?;
                progress::log(&format!("ready, kubeconfig {}", cluster.kubeconfig().display()));
                progress::log("try: cargo e2e kubectl -- get pods -A");
            }
            Self::Down(cluster) => {
                let options = cluster.own()?;
                let what = format!("the cluster {} is down", options.id.as_str());
                progress::step(&what, || Kubernetes::down(&options))?;
            }
            Self::Kubectl { cluster, arguments } => {
                let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let failed = running(&cluster)?.kubectl(&words).exec();
                return Err(failed).context("starting kubectl");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the cluster that the arguments name; from now on an interruption ends it.
fn guarded(arguments: &ClusterArguments) -> Result<ClusterChoice> {
    let target = arguments.target()?;
    interruption::guard(target.own().cloned(), Scope::Used)?;
    Ok(target)
}

/// Returns the cluster if it runs. This function starts none.
fn running(arguments: &ClusterArguments) -> Result<Cluster> {
    match arguments.target()? {
        ClusterChoice::Own(options) => Kubernetes::find(&options)
            .map(|it| Cluster::Own(Box::new(it)))
            .context("there is no cluster to use, `cargo e2e up` starts one"),
        target @ ClusterChoice::External(_) => Cluster::up(&target),
    }
}
