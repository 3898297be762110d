//! The command line of the test harness, but for what names a cluster.

use crate::architecture::Architecture;
use crate::bench::BenchCommand;
use crate::cache::Cache;
use crate::cli::ClusterArguments;
use crate::cluster::{Cluster, Target};
use crate::demo::demo;
use crate::environment::Environment;
use crate::interruption::{self, Scope};
use crate::kubernetes::{Kubernetes, Status};
use crate::product::{chart, dockerfiles};
use crate::progress::{self, Progress};
use crate::verify::{self, verify};
use anyhow::{Context as _, Result};
use clap::Parser;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;
use std::time::Duration;

/// After so long without use something goes from the cache.
const UNUSED: Duration = Duration::from_hours(14 * 24);

/// Runs the project on a real cluster.
#[derive(Debug, Parser)]
#[command(name = "e2e")]
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
    /// Start the cluster on this machine, or see that it runs.
    Up(ClusterArguments),
    /// End the cluster on this machine and everything it has left there.
    Down(ClusterArguments),
    /// List the clusters on this machine and what is kept in the cache.
    List,
    /// Remove from the cache what nobody has used for two weeks, and clusters that do not run.
    Prune,
    /// Tell what there is of the cluster; exit code 1 if it is not ready.
    Status(ClusterArguments),
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

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let ended = Command::parse().run(&Progress::new());
    interruption::await_end();
    ended.unwrap_or_else(|error| {
        progress::complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

impl Command {
    fn run(self, progress: &Progress) -> Result<ExitCode> {
        match self {
            Self::Demo(cluster) => {
                let target = guarded(&cluster)?;
                demo(&Environment::prepare(&target, true, progress)?, progress)?;
            }
            Self::Verify(arguments) => verify(&arguments, progress)?,
            Self::Images => {
                let images = dockerfiles::build(&Architecture::ALL, progress)?;
                progress::print(&images.directory.display().to_string());
            }
            Self::Manifests => chart::write_rendered(progress)?,
            Self::Bench(command) => return command.run(),
            Self::Up(cluster) => {
                let cluster = Cluster::up(&guarded(&cluster)?, progress)?;
                progress.say(&format!("ready, kubeconfig {}", cluster.kubeconfig().display()));
                progress.say("try: cargo e2e kubectl -- get pods -A");
            }
            Self::Down(cluster) => {
                let options = cluster.own("end")?;
                let what = format!("the cluster {} is down", options.id.as_str());
                progress.step(&what, || Kubernetes::down(&options))?;
            }
            Self::List => list(&Cache::locate()?)?,
            Self::Prune => prune(&Cache::locate()?, progress)?,
            Self::Status(cluster) => {
                let status = Kubernetes::status(&cluster.own("look at")?)?;
                progress::print(&describe(&status));
                return Ok(ExitCode::from(u8::from(status.fault.is_some())));
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

/// The cluster that the arguments name, which an interruption ends from now on.
fn guarded(arguments: &ClusterArguments) -> Result<Target> {
    let target = arguments.target()?;
    interruption::guard(target.own().cloned(), Scope::Target)?;
    Ok(target)
}

fn list(cache: &Cache) -> Result<()> {
    for options in Kubernetes::all(cache) {
        let state = readiness(&Kubernetes::status(&options)?);
        progress::print(&format!("cluster  {:<16} {state}", options.id.as_str()));
    }
    for artefact in cache.artefacts() {
        let days = artefact.unused.as_secs() / Duration::from_hours(24).as_secs();
        progress::print(&format!("built    {}, not used for {days} days", artefact.name));
    }
    Ok(())
}

fn prune(cache: &Cache, progress: &Progress) -> Result<()> {
    for options in Kubernetes::all(cache) {
        if Kubernetes::status(&options)?.processes.iter().any(|(_, alive)| *alive) {
            continue;
        }
        Kubernetes::down(&options)?;
        progress.say(&format!("removed the cluster {}, which did not run", options.id.as_str()));
    }
    for name in cache.prune(UNUSED)? {
        progress.say(&format!("removed {name}"));
    }
    Ok(())
}

/// The cluster if it runs; nothing is started.
fn running(arguments: &ClusterArguments) -> Result<Cluster> {
    match arguments.target()? {
        Target::Own(options) => Kubernetes::find(&options)
            .map(|it| Cluster::Own(Box::new(it)))
            .context("there is no cluster to use, `cargo e2e up` starts one"),
        target @ Target::External { .. } => Cluster::up(&target, &Progress::quiet()),
    }
}

fn describe(status: &Status) -> String {
    let Some(state) = &status.state else { return "no cluster".to_owned() };
    let mut lines = vec![
        format!("state      {}", state.display()),
        format!("kubeconfig {}", status.kubeconfig.display()),
    ];
    for (name, alive) in &status.processes {
        lines.push(format!("  {} {name}", if *alive { "runs " } else { "ended" }));
    }
    lines.push(readiness(status));
    lines.join("\n")
}

fn readiness(status: &Status) -> String {
    status.fault.as_ref().map_or_else(|| "ready".to_owned(), |it| format!("not ready: {it}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_what_has_ended() {
        let status = Status {
            state: Some("/s".into()),
            kubeconfig: "/s/kubeconfig".into(),
            processes: vec![("etcd of node-1".into(), true), ("kubelet of node-2".into(), false)],
            fault: Some("not running any more: kubelet of node-2".into()),
        };
        insta::assert_snapshot!(describe(&status), @r"
        state      /s
        kubeconfig /s/kubeconfig
          runs  etcd of node-1
          ended kubelet of node-2
        not ready: not running any more: kubelet of node-2
        ");
    }
}
