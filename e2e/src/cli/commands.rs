//! What can be done with a cluster: start, stop, look at, work with.

use std::{
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Subcommand;

use super::ClusterArguments;
use crate::{
    cache::Cache,
    cluster::{Cluster, Target},
    interruption::{self, Scope},
    kubernetes::{Kubernetes, Status},
    progress::{self, Progress},
};

/// After so long without use something goes from the cache.
const UNUSED: Duration = Duration::from_hours(14 * 24);

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
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

impl ClusterCommand {
    /// Does what was asked for.
    pub fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        match self {
            Self::Up(cluster) => up(cluster, &progress),
            Self::Down(cluster) => {
                let options = cluster.own("end")?;
                let what = format!("the cluster {} is down", options.id.as_str());
                progress.step(&what, || Kubernetes::down(&options))?;
                Ok(ExitCode::SUCCESS)
            }
            Self::List => list(&Cache::locate()?),
            Self::Prune => prune(&Cache::locate()?, &progress),
            Self::Status(cluster) => {
                let status = Kubernetes::status(&cluster.own("look at")?)?;
                progress::print(&describe(&status));
                Ok(if status.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Self::Kubectl { cluster, arguments } => {
                let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                hand_over(running(cluster)?.kubectl(&words))
            }
        }
    }
}

fn up(arguments: &ClusterArguments, progress: &Progress) -> Result<ExitCode> {
    let target = arguments.target()?;
    interruption::guard(target.own().cloned(), Scope::Target)?;
    let cluster = Cluster::up(&target, progress)?;
    progress.say(&format!("ready, kubeconfig {}", cluster.kubeconfig().display()));
    progress.say("try: cargo e2e kubectl -- get pods -A");
    Ok(ExitCode::SUCCESS)
}

fn list(cache: &Cache) -> Result<ExitCode> {
    for options in Kubernetes::all(cache) {
        let state = readiness(&Kubernetes::status(&options)?);
        progress::print(&format!("cluster  {:<16} {state}", options.id.as_str()));
    }
    for artefact in cache.artefacts() {
        let days = artefact.unused.as_secs() / Duration::from_hours(24).as_secs();
        progress::print(&format!("built    {}, not used for {days} days", artefact.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(cache: &Cache, progress: &Progress) -> Result<ExitCode> {
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
    Ok(ExitCode::SUCCESS)
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

/// Runs a command for the user and passes on how it ended.
fn hand_over(mut command: Command) -> Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    // 1 stands for an end by a signal.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
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
