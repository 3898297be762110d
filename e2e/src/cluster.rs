//! The cluster that tests run against: one of our own, or any that a kubeconfig names.
//!
//! The rest of the harness does not distinguish the two.

use crate::images::image::Image;
use crate::kubernetes::{Kubernetes, Options};
use crate::programs;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone)]
pub enum ClusterChoice {
    /// One on this machine, started if need be.
    Own(Options),
    /// One that is there already.
    External(ExternalCluster),
}

/// A cluster of somebody else.
#[derive(Debug, Clone)]
pub struct ExternalCluster {
    pub kubeconfig: PathBuf,
    /// A command that loads an image archive into it; `{}` stands for the archive.
    pub load_command: Option<String>,
}

impl ClusterChoice {
    /// The options of a cluster on this machine.
    pub fn own(&self) -> Option<&Options> {
        if let Self::Own(options) = self { Some(options) } else { None }
    }
}

/// A cluster that can be used, as [`ClusterChoice`] names it.
#[derive(Debug, Clone)]
pub enum Cluster {
    /// One of ours.
    Own(Box<Kubernetes>),
    /// One of somebody else.
    External(ExternalCluster),
}

impl Cluster {
    /// Starts the cluster, or checks that the given one answers.
    pub fn up(target: &ClusterChoice) -> Result<Self> {
        match target.clone() {
            ClusterChoice::Own(options) => {
                Kubernetes::up(&options).map(|it| Self::Own(Box::new(it)))
            }
            ClusterChoice::External(external) => {
                check(&external)?;
                Ok(Self::External(external))
            }
        }
    }

    /// The cluster, if it is one of ours.
    pub fn own(&self) -> Option<&Kubernetes> {
        if let Self::Own(cluster) = self { Some(cluster) } else { None }
    }

    /// The kubeconfig to reach it by, after [`Cluster::enter_network`].
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Self::Own(cluster) => cluster.kubeconfig(),
            Self::External(external) => &external.kubeconfig,
        }
    }

    /// Moves the calling thread, and the threads and processes it starts from now on, to where the cluster
    /// can be reached.
    pub(crate) fn enter_network(&self) -> Result<()> {
        self.own().map_or(Ok(()), Kubernetes::enter_network)
    }

    /// `kubectl` with these arguments, from wherever it is started.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        if let Self::Own(cluster) = self {
            return cluster.kubectl(arguments);
        }
        let mut command = self.program(Path::new("kubectl"));
        command.args(arguments);
        command
    }

    /// Applies objects as `kubectl apply --server-side` does, with these further options.
    pub fn apply(&self, manifest: &str, options: &[&str]) -> Result<()> {
        let words = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"];
        let mut apply = self.kubectl(&[&words[..], options].concat());
        programs::run_with_input(&mut apply, manifest.as_bytes()).map(drop)
    }

    /// `program`, which reaches the cluster by `KUBECONFIG`, from wherever it is started.
    pub fn program(&self, program: &Path) -> Command {
        match self {
            Self::Own(cluster) => cluster.program(program),
            Self::External(external) => {
                let mut command = Command::new(program);
                command.env("KUBECONFIG", &external.kubeconfig);
                command
            }
        }
    }

    /// Loads an image under these names.
    pub fn load_image(&self, image: &Image, names: &[&str]) -> Result<()> {
        match self {
            Self::Own(cluster) => cluster.load_image(image, names),
            Self::External(external) => load_image(image, names, external),
        }
    }

    /// Fetches an image from its registry; a given cluster does so by itself when a pod wants it.
    pub(crate) fn pull_image(&self, name: &str) -> Result<()> {
        self.own().map_or(Ok(()), |cluster| cluster.pull_image(name))
    }
}

/// Fails where the cluster of this kubeconfig does not answer, or images cannot be loaded into it.
fn check(ExternalCluster { kubeconfig, load_command }: &ExternalCluster) -> Result<()> {
    ensure!(kubeconfig.is_file(), "there is no kubeconfig at {}", kubeconfig.display());
    ensure!(programs::find("kubectl").is_some(), "kubectl is needed and is not in PATH");
    if let Some(command) = load_command {
        loading(command, Path::new("archive"))?;
    }
    let mut ready = Command::new("kubectl");
    ready.arg("--kubeconfig").arg(kubeconfig);
    programs::run(ready.args(["get", "--raw=/readyz", "--request-timeout=10s"]))
        .with_context(|| format!("reaching the cluster of {}", kubeconfig.display()))?;
    Ok(())
}

fn load_image(image: &Image, names: &[&str], into: &ExternalCluster) -> Result<()> {
    let what = names.join(", ");
    let Some(command) = &into.load_command else {
        bail!(
            "loading {what} needs a command: pass --load-command, such as 'kind load image-archive {{}}'"
        );
    };
    let file = tempfile::Builder::new().suffix(".tar").tempfile();
    let file = file.context("making a file for an image archive")?;
    image.write_archive(names, BufWriter::new(file.as_file()))?;
    let words = loading(command, file.path())?;
    programs::run(Command::new(&words[0]).args(&words[1..]))
        .with_context(|| format!("loading the image {what}"))?;
    Ok(())
}

/// The words of the command, with the archive's path for `{}`.
fn loading(command: &str, archive: &Path) -> Result<Vec<String>> {
    let words = shlex::split(command)
        .filter(|words| words.iter().any(|word| word.contains("{}")))
        .with_context(|| format!("the load command {command:?} must hold {{}} for the archive"))?;
    Ok(words.iter().map(|word| word.replace("{}", &archive.display().to_string())).collect())
}
