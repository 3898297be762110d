//! Builds, from the Go module proxy, what no Debian package offers in the version wanted.
//!
//! The go.mod and go.sum files under `go/` pin every module; Go checks what it downloads against them.

use std::{
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use super::{
    options::{ContainerRuntime, Nodes},
    recipes::{
        ACTIONLINT, CONTAINERD, COREDNS, HELM, KUEUE, KWOK, OLD_CONTAINERD, PAUSE, Recipe,
        SCHEDULER_PLUGINS, kubernetes,
    },
    version::KubernetesVersion,
};
use crate::{
    cache::{self, Cache, Key},
    programs,
    progress::Progress,
};

/// Where in the artefact's directory the modules are while it is made.
const SOURCE: &str = "source";

/// A directory with the program `kueue` and its `chart`; built if the cache does not have it yet.
pub fn kueue(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    KUEUE.ensure(cache, progress)
}

/// A directory with the program `scheduler-plugins` and the `definitions` of what it reads; built if the cache
/// does not have it yet.
pub fn scheduler_plugins(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    SCHEDULER_PLUGINS.ensure(cache, progress)
}

/// The program helm; built if the cache does not have it yet.
pub fn helm(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    Ok(HELM.ensure(cache, progress)?.join("helm"))
}

/// The program actionlint, which checks workflows; built if the cache does not have it yet.
pub fn actionlint(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    Ok(ACTIONLINT.ensure(cache, progress)?.join("actionlint"))
}

/// Where the built programs are, on this machine; each directory lies directly in [`Cache::built`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// etcd, kube-apiserver, kube-controller-manager, kube-proxy, kube-scheduler, kubectl, kubelet.
    pub kubernetes: PathBuf,
    /// containerd, containerd-shim-runc-v2, ctr.
    pub containerd: PathBuf,
    /// coredns.
    pub coredns: PathBuf,
    /// pause.
    pub pause: PathBuf,
    /// kwok, where nodes are simulated.
    pub kwok: Option<PathBuf>,
    /// Another containerd, where a node is to have no image volumes.
    pub old_containerd: Option<PathBuf>,
}

impl Built {
    /// Builds what the cache does not have yet.
    pub fn ensure(
        cache: &Cache,
        version: KubernetesVersion,
        nodes: &Nodes,
        progress: &Progress,
    ) -> Result<Self> {
        let if_needed = |needed: bool, recipe: &Recipe| {
            needed.then(|| recipe.ensure(cache, progress)).transpose()
        };
        let old = nodes.runtimes().contains(&ContainerRuntime::WithoutImageVolumes);
        Ok(Self {
            kwok: if_needed(*nodes == Nodes::Simulated, &KWOK)?,
            old_containerd: if_needed(old, &OLD_CONTAINERD)?,
            pause: PAUSE.ensure(cache, progress)?,
            containerd: CONTAINERD.ensure(cache, progress)?,
            coredns: COREDNS.ensure(cache, progress)?,
            kubernetes: kubernetes(version).ensure(cache, progress)?,
        })
    }

    /// A directory's name in [`Cache::built`].
    pub(crate) fn name_of(directory: &Path) -> String {
        directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The directory of a container runtime.
    pub(crate) fn runtime(&self, runtime: ContainerRuntime) -> Result<&Path> {
        match runtime {
            ContainerRuntime::Newest => Ok(&self.containerd),
            ContainerRuntime::WithoutImageVolumes => {
                self.old_containerd.as_deref().context("the old containerd was not built")
            }
        }
    }

    /// What the cluster's state depends on: the names of all.
    pub(crate) fn names(&self) -> Vec<String> {
        let always = [&self.kubernetes, &self.containerd, &self.coredns, &self.pause];
        let sometimes = [&self.kwok, &self.old_containerd].into_iter().flatten();
        always.into_iter().chain(sometimes).map(|it| Self::name_of(it)).collect()
    }

    /// The directories below `built` that [`Self::names`] has named, with or without more lines behind.
    pub(crate) fn from_names<'a>(
        built: &Path,
        mut names: impl Iterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut next = || names.next().map(|name| built.join(name)).filter(|it| it.is_dir());
        let (kubernetes, containerd, coredns, pause) = (next()?, next()?, next()?, next()?);
        let (mut kwok, mut old_containerd) = (None, None);
        while let Some(directory) = next() {
            let is_kwok = Self::name_of(&directory).starts_with(KWOK.name);
            *(if is_kwok { &mut kwok } else { &mut old_containerd }) = Some(directory);
        }
        Some(Self { kubernetes, containerd, coredns, pause, kwok, old_containerd })
    }

    #[cfg(test)]
    pub(crate) fn at(built: &Path) -> Self {
        let path = |recipe: &Recipe| built.join(recipe.name);
        Self {
            kubernetes: path(&kubernetes(KubernetesVersion::default())),
            containerd: path(&CONTAINERD),
            coredns: path(&COREDNS),
            pause: path(&PAUSE),
            kwok: Some(path(&KWOK)),
            old_containerd: Some(built.join("old-containerd")),
        }
    }
}

impl Recipe {
    fn key(&self) -> Key {
        let arguments = self.arguments().join(" ");
        let mut inputs = vec![("arguments", arguments.as_bytes())];
        inputs.extend(self.files.iter().map(|(name, content)| (*name, content.as_bytes())));
        Key::new(self.name, self.version, &inputs)
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["build", "-mod=readonly", "-buildvcs=false", "-trimpath"].map(String::from).to_vec();
        arguments.extend(self.flags.iter().map(ToString::to_string));
        arguments.push(format!("-ldflags=-s -w {}", self.link).trim_end().to_owned());
        arguments.extend(["-o", "../"].map(String::from));
        arguments.extend(self.packages.iter().map(ToString::to_string));
        arguments
    }

    fn ensure(&self, cache: &Cache, progress: &Progress) -> Result<PathBuf> {
        let key = self.key();
        if let Some(found) = cache.find(&key) {
            return Ok(found);
        }
        let what = format!("building {} {}", self.name, self.version);
        progress.long_step(&what, self.usually, || {
            cache.artefact(&key, |directory| self.build(directory, &cache.log_of(&key)))
        })
    }

    /// Leaves nothing in `directory` but the programs and the directories that are kept.
    fn build(&self, directory: &Path, log: &Path) -> Result<()> {
        if programs::find("go").is_none() {
            bail!("building {} needs Go 1.26 or later, see https://go.dev/dl", self.name);
        }
        let source = directory.join(SOURCE);
        self.write_files(&source)?;
        let output = File::create(log).with_context(|| format!("opening {}", log.display()))?;
        let errors = output.try_clone().with_context(|| format!("opening {}", log.display()))?;
        let built = programs::show(
            Command::new("go")
                .args(self.arguments())
                .current_dir(&source)
                .env("CGO_ENABLED", "0")
                .env("GOWORK", "off")
                .stdin(Stdio::null())
                .stdout(output)
                .stderr(errors),
        );
        built.with_context(|| {
            let tail = programs::tail(log, 20);
            format!("building {}; {}:\n{tail}", self.name, log.display())
        })?;
        for (module, path, name) in self.directories {
            let from = directory_of(module, &source)?.join(path);
            copy_directory(&from, &directory.join(name))
                .with_context(|| format!("copying {path} of the module {module}"))?;
        }
        cache::remove_tree(&source)
    }

    fn write_files(&self, source: &Path) -> Result<()> {
        for (name, content) in self.files {
            let path = source.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)
                    .with_context(|| format!("making {}", parent.display()))?;
            }
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

/// Where Go keeps a module that the one in `source` requires.
fn directory_of(module: &str, source: &Path) -> Result<PathBuf> {
    let mut list = Command::new("go");
    list.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]).current_dir(source);
    let output = programs::run(list.env("GOWORK", "off"))?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Copies the files of a directory and of those in it. Not their modes: Go keeps modules read-only.
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry.with_context(|| format!("reading {}", from.display()))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_directory(&from, &to)?;
        } else {
            let content = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
            fs::write(&to, content).with_context(|| format!("writing {}", to.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_has_a_key_of_its_own() {
        let versions = KubernetesVersion::all().iter().map(|version| kubernetes(*version));
        let others = [
            CONTAINERD,
            OLD_CONTAINERD,
            COREDNS,
            PAUSE,
            KWOK,
            HELM,
            ACTIONLINT,
            KUEUE,
            SCHEDULER_PLUGINS,
        ];
        let recipes = versions.chain(others);
        let keys = recipes.map(|recipe| recipe.key().to_string());
        let names = keys.map(|key| key.rsplit_once('-').unwrap().0.to_owned());
        insta::assert_snapshot!(
            names.collect::<Vec<_>>().join(" "),
            @"kubernetes-v1.33.13 kubernetes-v1.36.3 kubernetes-v1.37.2 containerd-v2.3.7 containerd-v2.0.14 coredns-v1.14.7 pause-1 kwok-v0.8.0 helm-v4.3.1 actionlint-v1.7.12 kueue-v0.15.0 scheduler-plugins-v0.34.7"
        );
    }

    #[test]
    fn what_is_built_is_found_by_its_names() {
        let cache = tempfile::tempdir().unwrap();
        let built = Built::at(cache.path());
        let all = || built.names().join("\n") + "\nwhat is no directory\n";
        assert_eq!(Built::from_names(cache.path(), all().lines()), None);
        for name in built.names() {
            fs::create_dir(cache.path().join(name)).unwrap();
        }
        assert_eq!(Built::from_names(cache.path(), all().lines()), Some(built.clone()));
        for (kwok, old_containerd) in [(false, false), (false, true), (true, false)] {
            let with = Built {
                kwok: built.kwok.clone().filter(|_| kwok),
                old_containerd: built.old_containerd.clone().filter(|_| old_containerd),
                ..built.clone()
            };
            let names = with.names().join("\n") + "\nwhat is no directory\n";
            assert_eq!(Built::from_names(cache.path(), names.lines()), Some(with));
        }
    }

    #[test]
    fn a_build_is_static_and_without_paths_of_this_machine() {
        insta::assert_snapshot!(
            CONTAINERD.arguments().join("\n"),
            @r"
        build
        -mod=readonly
        -buildvcs=false
        -trimpath
        -tags=no_btrfs no_devmapper no_zfs
        -ldflags=-s -w
        -o
        ../
        github.com/containerd/containerd/v2/cmd/containerd
        github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
        github.com/containerd/containerd/v2/cmd/ctr
        "
        );
    }
}
