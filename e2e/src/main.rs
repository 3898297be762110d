//! The command line of the test harness: `cargo e2e`, `cargo demo`, `cargo verify`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use e2e::{
    architecture::Architecture,
    bench::BenchCommand,
    cli::{ClusterArguments, ClusterCommand},
    demo::demo,
    environment::Environment,
    interruption::{self, Scope},
    product::{chart::Chart, dockerfiles},
    progress::{self, Progress},
    verify::{self, verify},
};

/// Runs the project on a real cluster.
#[derive(Debug, Parser)]
#[command(name = "e2e")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set everything up and run the hello-world example.
    Demo(ClusterArguments),
    /// Set everything up and run every check and test.
    Verify(verify::Arguments),
    /// Build the images that are shipped from their Dockerfiles, for every architecture, into target/images.
    Images,
    /// Render the manifests in deploy/ from the chart. Builds helm.
    Manifests,
    /// Measure on a cluster of this machine.
    #[command(subcommand)]
    Bench(BenchCommand),
    #[command(flatten)]
    Cluster(ClusterCommand),
}

impl Command {
    fn run(self) -> Result<ExitCode> {
        match self {
            Self::Demo(cluster) => {
                let progress = Progress::new();
                let target = cluster.target()?;
                interruption::guard(target.own().cloned(), Scope::Target)?;
                demo(&Environment::prepare(&target, true, &progress)?, &progress)?;
            }
            Self::Verify(arguments) => verify(&arguments, &Progress::new())?,
            Self::Images => {
                let images = dockerfiles::build(&Architecture::ALL, &Progress::new())?;
                progress::print(&format!("{}", images.directory().display()));
            }
            Self::Manifests => Chart::of_checkout(&Progress::new())?.write_rendered()?,
            Self::Bench(command) => return command.run(),
            Self::Cluster(command) => return command.run(),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn main() -> ExitCode {
    let ended = Arguments::parse().command.run();
    interruption::await_end();
    match ended {
        Ok(code) => code,
        Err(error) => {
            progress::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
