//! The command line's part about clusters: start, stop, look at, work with.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use crate::{
    cache::Cache,
    cluster::{Cluster, Target},
    kubernetes::{ClusterId, DnsCache, Kubernetes, Options, Status},
    progress::{self, Progress},
};

/// Which cluster to work with.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterArguments {
    /// Use the cluster of this kubeconfig instead of one on this machine.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use the cluster of $KUBECONFIG, or of ~/.kube/config.
    #[arg(long, conflicts_with = "kubeconfig")]
    external: bool,
    /// How to load an image archive into that cluster, as 'kind load image-archive {}'.
    #[arg(long, value_name = "COMMAND")]
    load_command: Option<String>,
    /// Name of the cluster on this machine; by default each checkout has its own.
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Seconds for which the cluster's DNS caches answers about the cluster; by default it does not.
    #[arg(long, value_name = "SECONDS")]
    dns_cache: Option<u16>,
}

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start the cluster on this machine, or see that it runs.
    Up {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// End the cluster on this machine and everything it has left there.
    Down {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Tell what there is of the cluster; exit code 1 if it is not ready.
    Status {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
    },
    /// Run kubectl as the cluster's administrator.
    Kubectl {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// kubectl's arguments.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Run a command where the cluster's API server, Services and pods can be reached.
    Exec {
        /// Which cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// The command and its arguments; KUBECONFIG is set for it.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl ClusterArguments {
    /// The cluster that the arguments name.
    ///
    /// # Errors
    /// When they contradict each other or the cache cannot be found.
    pub fn target(&self) -> Result<Target> {
        let kubeconfig = match (&self.kubeconfig, self.external) {
            (Some(path), _) => Some(path.clone()),
            (None, true) => Some(usual_kubeconfig(|name| std::env::var_os(name))?),
            (None, false) => None,
        };
        if let Some(kubeconfig) = kubeconfig {
            return Ok(Target::External { kubeconfig, load_command: self.load_command.clone() });
        }
        if self.load_command.is_some() {
            bail!("--load-command is for a cluster named by --kubeconfig or --external");
        }
        Ok(Target::Own(self.options()?))
    }

    fn options(&self) -> Result<Options> {
        let id = match &self.id {
            Some(name) => ClusterId::named(name)?,
            None => ClusterId::of_this_checkout(),
        };
        let dns_cache = self.dns_cache.map_or(DnsCache::Off, DnsCache::Seconds);
        Ok(Options { cache: Cache::locate()?, id, dns_cache })
    }

    /// The options of a cluster on this machine.
    fn own(&self, verb: &str) -> Result<Options> {
        match self.target()? {
            Target::Own(options) => Ok(options),
            Target::External { kubeconfig, .. } => {
                bail!("the cluster of {} is not ours to {verb}", kubeconfig.display())
            }
        }
    }
}

/// As kubectl looks for it, but one file only.
fn usual_kubeconfig(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let named = variable("KUBECONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
    named
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".kube/config")))
        .context("--external needs KUBECONFIG or HOME to be set")
}

impl ClusterCommand {
    /// Does what was asked for.
    ///
    /// # Errors
    /// Those of the cluster's own operations.
    pub fn run(&self) -> Result<ExitCode> {
        let progress = Progress::new();
        match self {
            Self::Up { cluster } => up(cluster, &progress),
            Self::Down { cluster } => {
                let options = cluster.own("end")?;
                progress.step("the cluster is down", || Kubernetes::down(&options))?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Status { cluster } => {
                let status = Kubernetes::status(&cluster.own("look at")?)?;
                progress::print(&describe(&status));
                Ok(if status.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Self::Kubectl { cluster, arguments } => hand_over(running(cluster)?.kubectl(arguments)),
            Self::Exec { cluster, command } => {
                let cluster = running(cluster)?;
                let [program, arguments @ ..] = command.as_slice() else {
                    bail!("no command was given");
                };
                cluster.enter_network()?;
                let mut command = Command::new(program);
                command.args(arguments).env("KUBECONFIG", cluster.kubeconfig());
                hand_over(command)
            }
        }
    }
}

fn up(arguments: &ClusterArguments, progress: &Progress) -> Result<ExitCode> {
    let cluster = Cluster::up(&arguments.target()?, progress)?;
    progress.say(&format!("ready, kubeconfig {}", cluster.kubeconfig().display()));
    progress.say("try: cargo e2e kubectl -- get pods -A");
    Ok(ExitCode::SUCCESS)
}

/// The cluster if it runs; nothing is started.
fn running(arguments: &ClusterArguments) -> Result<Cluster> {
    match arguments.target()? {
        Target::Own(options) => Kubernetes::find(&options)
            .map(Cluster::Own)
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
    lines.push(match &status.fault {
        None => "ready".to_owned(),
        Some(fault) => format!("not ready: {fault}"),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_names_an_external_cluster() {
        let arguments = ClusterArguments {
            kubeconfig: Some("/k".into()),
            load_command: Some("load {}".into()),
            ..ClusterArguments::default()
        };
        let Target::External { kubeconfig, load_command } = arguments.target().unwrap() else {
            panic!("expected an external cluster");
        };
        assert_eq!((kubeconfig, load_command), ("/k".into(), Some("load {}".into())));
    }

    #[test]
    fn a_load_command_without_an_external_cluster_is_refused() {
        let arguments =
            ClusterArguments { load_command: Some("x {}".into()), ..ClusterArguments::default() };
        assert!(arguments.target().is_err());
    }

    #[test]
    fn the_usual_kubeconfig_is_the_variables_else_the_homes() {
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/h"));
        assert_eq!(usual_kubeconfig(home).unwrap(), Path::new("/h/.kube/config"));
        let both = |_: &str| Some(OsString::from("/set"));
        assert_eq!(usual_kubeconfig(both).unwrap(), Path::new("/set"));
        assert!(usual_kubeconfig(|_| None).is_err());
    }

    #[test]
    fn a_status_names_what_has_ended() {
        let status = Status {
            state: Some("/s".into()),
            kubeconfig: "/s/kubeconfig".into(),
            processes: vec![("etcd".into(), true), ("kubelet".into(), false)],
            fault: Some("not running any more: kubelet".into()),
        };
        insta::assert_snapshot!(describe(&status), @r"
        state      /s
        kubeconfig /s/kubeconfig
          runs  etcd
          ended kubelet
        not ready: not running any more: kubelet
        ");
    }
}
