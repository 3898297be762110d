//! The cluster that tests run against: one of our own, or any that a kubeconfig names.
//!
//! Both look the same from here on.

use std::{
    ffi::OsStr,
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    images::image::Image,
    kubernetes::{Kubernetes, Options},
    programs,
    progress::Progress,
};

/// Which cluster to use.
#[derive(Debug, Clone)]
pub enum Target {
    /// One on this machine, started if need be.
    Own(Options),
    /// One that is there already.
    External {
        /// How to reach it.
        kubeconfig: PathBuf,
        /// A command that loads an image archive into it; `{}` stands for the archive.
        load_command: Option<String>,
    },
}

/// A cluster that can be used.
#[derive(Debug, Clone)]
pub enum Cluster {
    /// One on this machine.
    Own(Box<Kubernetes>),
    /// One that somebody else looks after.
    External(External),
}

/// A cluster that somebody else looks after.
#[derive(Debug, Clone)]
pub struct External {
    kubeconfig: PathBuf,
    load_command: Option<String>,
}

impl Cluster {
    /// Starts the cluster, or sees that the given one answers.
    pub fn up(target: &Target, progress: &Progress) -> Result<Self> {
        match target {
            Target::Own(options) => {
                Kubernetes::up(options, progress).map(|it| Self::Own(Box::new(it)))
            }
            Target::External { kubeconfig, load_command } => {
                External::check(kubeconfig, load_command.as_deref()).map(Self::External)
            }
        }
    }

    /// The kubeconfig to reach it by, after [`Cluster::enter_network`].
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Self::Own(cluster) => cluster.kubeconfig(),
            Self::External(cluster) => &cluster.kubeconfig,
        }
    }

    /// The API server's audit log, where there is access to it.
    pub fn audit_log(&self) -> Option<PathBuf> {
        match self {
            Self::Own(cluster) => Some(cluster.audit_log()),
            Self::External(_) => None,
        }
    }

    /// `ctr` of the node's containerd, where there is access to it.
    pub(crate) fn containerd(&self) -> Option<Command> {
        match self {
            Self::Own(cluster) => Some(cluster.containerd()),
            Self::External(_) => None,
        }
    }

    /// Moves the calling thread, and the threads and processes it starts from now on, to where the cluster
    /// can be reached.
    pub fn enter_network(&self) -> Result<()> {
        match self {
            Self::Own(cluster) => cluster.enter_network(),
            Self::External(_) => Ok(()),
        }
    }

    /// `kubectl` with these arguments, from wherever it is started.
    pub fn kubectl<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        match self {
            Self::Own(cluster) => cluster.kubectl(arguments),
            Self::External(cluster) => {
                let mut command = Command::new("kubectl");
                command.arg("--kubeconfig").arg(&cluster.kubeconfig).args(arguments);
                command
            }
        }
    }

    /// `program`, which reaches the cluster by `KUBECONFIG`, from wherever it is started.
    pub fn program(&self, program: &Path) -> Command {
        match self {
            Self::Own(cluster) => cluster.program(program),
            Self::External(cluster) => {
                let mut command = Command::new(program);
                command.env("KUBECONFIG", &cluster.kubeconfig);
                command
            }
        }
    }

    /// Makes the image known to the cluster under all these names.
    pub fn load_image(&self, image: &Image, names: &[&str]) -> Result<()> {
        match self {
            Self::Own(cluster) => cluster.load_image(image, names),
            Self::External(cluster) => cluster.load_image(image, names),
        }
    }

    /// Fetches an image from its registry; a given cluster does so by itself when a pod wants it.
    pub fn pull_image(&self, name: &str) -> Result<()> {
        match self {
            Self::Own(cluster) => cluster.pull_image(name),
            Self::External(_) => Ok(()),
        }
    }
}

impl External {
    fn check(kubeconfig: &Path, load_command: Option<&str>) -> Result<Self> {
        ensure!(kubeconfig.is_file(), "there is no kubeconfig at {}", kubeconfig.display());
        ensure!(programs::find("kubectl").is_some(), "kubectl is needed and is not in PATH");
        if let Some(command) = load_command {
            loading(command, Path::new("archive"))?;
        }
        programs::run(Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args([
            "get",
            "--raw=/readyz",
            "--request-timeout=10s",
        ]))
        .with_context(|| format!("reaching the cluster of {}", kubeconfig.display()))?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            load_command: load_command.map(str::to_owned),
        })
    }

    fn load_image(&self, image: &Image, names: &[&str]) -> Result<()> {
        let what = names.join(", ");
        let Some(command) = &self.load_command else {
            bail!("loading {what}: say how by --load-command, as 'kind load image-archive {{}}'");
        };
        let file = tempfile::Builder::new()
            .suffix(".tar")
            .tempfile()
            .context("making a file for an image archive")?;
        let path = file.path();
        let writer = File::create(path).with_context(|| format!("opening {}", path.display()))?;
        image.write_archive(names, BufWriter::new(writer))?;
        let words = loading(command, path)?;
        programs::run(Command::new(&words[0]).args(&words[1..]))
            .with_context(|| format!("loading the image {what}"))?;
        Ok(())
    }
}

/// The words of the command, with the archive's path for `{}`.
fn loading(command: &str, archive: &Path) -> Result<Vec<String>> {
    let words = shlex::split(command)
        .filter(|words| words.iter().any(|word| word.contains("{}")))
        .with_context(|| format!("the load command {command:?} must hold {{}} for the archive"))?;
    Ok(words.iter().map(|word| word.replace("{}", &archive.display().to_string())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_takes_its_place_in_the_load_command() {
        let words = loading("kind load image-archive '{}' --name x", Path::new("/a b")).unwrap();
        assert_eq!(words, ["kind", "load", "image-archive", "/a b", "--name", "x"]);
    }

    #[test]
    fn a_load_command_without_a_place_for_the_archive_is_refused() {
        for command in ["kind load", "", "kind '{}"] {
            assert!(loading(command, Path::new("a")).is_err(), "{command:?}");
        }
    }
}
