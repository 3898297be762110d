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
    version::KubernetesVersion,
};
use crate::{
    cache::{self, Cache, Key},
    programs,
    progress::Progress,
};

/// The containerd version that is built, as in `go/containerd/2.3/go.mod`.
const CONTAINERD_VERSION: &str = "v2.3.7";
/// The newest containerd without image volumes, as in `go/containerd/2.0/go.mod`.
const OLD_CONTAINERD_VERSION: &str = "v2.0.14";
/// The `CoreDNS` version that is built, as in `go/coredns/go.mod`.
const COREDNS_VERSION: &str = "v1.14.7";
const PAUSE_VERSION: &str = "1";
/// The kwok version that is built, as in `go/kwok/go.mod`.
const KWOK_VERSION: &str = "v0.8.0";
/// The Helm version that is built, as in `go/helm/go.mod`.
const HELM_VERSION: &str = "v4.3.1";
/// The actionlint version that is built, as in `go/actionlint/go.mod`.
const ACTIONLINT_VERSION: &str = "v1.7.12";

/// The Kueue version that is built, as in `go/kueue/go.mod`.
pub(crate) const KUEUE_VERSION: &str = "v0.15.0";
/// The version of scheduler-plugins that is built, as in `go/scheduler-plugins/go.mod`.
pub(crate) const SCHEDULER_PLUGINS_VERSION: &str = "v0.34.7";

/// Where in the artefact's directory the modules are while it is made.
const SOURCE: &str = "source";

/// One `go build`.
struct Recipe {
    name: &'static str,
    version: &'static str,
    /// How long it takes on two cores with an empty Go build cache.
    usually: &'static str,
    files: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
    link: &'static str,
    packages: &'static [&'static str],
    /// Directories of modules that are kept beside the programs: module, path within it, name.
    directories: &'static [(&'static str, &'static str, &'static str)],
}

/// The control plane, the kubelet and etcd.
const fn kubernetes(version: KubernetesVersion) -> Recipe {
    let source = version.source();
    Recipe {
        name: "kubernetes",
        version: source.version,
        usually: "7 min on 2 cores",
        files: source.files,
        flags: &[],
        link: source.link,
        packages: &[
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-proxy",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubectl",
            "k8s.io/kubernetes/cmd/kubelet",
            "./etcd",
        ],
        directories: &[],
    }
}

const CONTAINERD: Recipe = Recipe {
    name: "containerd",
    version: CONTAINERD_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/containerd/2.3/go.mod")),
        ("go.sum", include_str!("../../go/containerd/2.3/go.sum")),
        ("tools.go", include_str!("../../go/containerd/tools.go")),
    ],
    flags: &["-tags=no_btrfs no_devmapper no_zfs"],
    link: "",
    packages: &[
        "github.com/containerd/containerd/v2/cmd/containerd",
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        "github.com/containerd/containerd/v2/cmd/ctr",
    ],
    directories: &[],
};

/// Needed only where a node is to have no image volumes.
const OLD_CONTAINERD: Recipe = Recipe {
    version: OLD_CONTAINERD_VERSION,
    files: &[
        ("go.mod", include_str!("../../go/containerd/2.0/go.mod")),
        ("go.sum", include_str!("../../go/containerd/2.0/go.sum")),
        ("tools.go", include_str!("../../go/containerd/tools.go")),
    ],
    ..CONTAINERD
};

const COREDNS: Recipe = Recipe {
    name: "coredns",
    version: COREDNS_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/coredns/go.mod")),
        ("go.sum", include_str!("../../go/coredns/go.sum")),
        ("main.go", include_str!("../../go/coredns/main.go")),
    ],
    flags: &[],
    link: "",
    packages: &["."],
    directories: &[],
};

const PAUSE: Recipe = Recipe {
    name: "pause",
    version: PAUSE_VERSION,
    usually: "10 s",
    files: &[
        ("go.mod", include_str!("../../go/pause/go.mod")),
        ("main.go", include_str!("../../go/pause/main.go")),
    ],
    flags: &[],
    link: "",
    packages: &["."],
    directories: &[],
};

/// Needed only where nodes are simulated.
const KWOK: Recipe = Recipe {
    name: "kwok",
    version: KWOK_VERSION,
    usually: "2 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/kwok/go.mod")),
        ("go.sum", include_str!("../../go/kwok/go.sum")),
        ("tools.go", include_str!("../../go/kwok/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["sigs.k8s.io/kwok/cmd/kwok"],
    directories: &[],
};

/// Needed only where the operator's chart is looked at or installed.
const HELM: Recipe = Recipe {
    name: "helm",
    version: HELM_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/helm/go.mod")),
        ("go.sum", include_str!("../../go/helm/go.sum")),
        ("tools.go", include_str!("../../go/helm/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["helm.sh/helm/v4/cmd/helm"],
    directories: &[],
};

/// Needed only where MiniClusters wait in a queue.
const KUEUE: Recipe = Recipe {
    name: "kueue",
    version: KUEUE_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/kueue/go.mod")),
        ("go.sum", include_str!("../../go/kueue/go.sum")),
        ("tools.go", include_str!("../../go/kueue/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["sigs.k8s.io/kueue/cmd/kueue"],
    directories: &[("sigs.k8s.io/kueue", "charts/kueue", "chart")],
};

/// A directory with the program `kueue` and its `chart`; built if the cache does not have it yet.
pub(crate) fn kueue(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    KUEUE.ensure(cache, progress)
}

/// Needed only where pods get nodes together.
const SCHEDULER_PLUGINS: Recipe = Recipe {
    name: "scheduler-plugins",
    version: SCHEDULER_PLUGINS_VERSION,
    usually: "3 min on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/scheduler-plugins/go.mod")),
        ("go.sum", include_str!("../../go/scheduler-plugins/go.sum")),
        ("main.go", include_str!("../../go/scheduler-plugins/main.go")),
    ],
    flags: &[],
    link: "-X k8s.io/component-base/version.gitVersion=v1.34.2",
    packages: &["."],
    directories: &[("sigs.k8s.io/scheduler-plugins", "config/crd/bases", "definitions")],
};

/// A directory with the program `scheduler-plugins` and the `definitions` of what it reads; built if the cache
/// does not have it yet.
pub(crate) fn scheduler_plugins(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    SCHEDULER_PLUGINS.ensure(cache, progress)
}

/// The program helm; built if the cache does not have it yet.
pub fn helm(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    Ok(HELM.ensure(cache, progress)?.join("helm"))
}

/// No part of a cluster.
const ACTIONLINT: Recipe = Recipe {
    name: "actionlint",
    version: ACTIONLINT_VERSION,
    usually: "30 s on 2 cores",
    files: &[
        ("go.mod", include_str!("../../go/actionlint/go.mod")),
        ("go.sum", include_str!("../../go/actionlint/go.sum")),
        ("tools.go", include_str!("../../go/actionlint/tools.go")),
    ],
    flags: &[],
    link: "",
    packages: &["github.com/rhysd/actionlint/cmd/actionlint"],
    directories: &[],
};

/// The program actionlint, which checks workflows; built if the cache does not have it yet.
pub(crate) fn actionlint(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
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
    fn the_versions_are_those_that_the_go_modules_require() {
        let requires = |recipe: &Recipe, module: &str| {
            let line = format!("{module} {}", recipe.version);
            let found = recipe.files[0]
                .1
                .lines()
                .any(|entry| entry.trim_start_matches("require ").trim() == line);
            assert!(found, "{} does not require {line}", recipe.name);
        };
        requires(&CONTAINERD, "github.com/containerd/containerd/v2");
        requires(&OLD_CONTAINERD, "github.com/containerd/containerd/v2");
        requires(&COREDNS, "github.com/coredns/coredns");
        requires(&KWOK, "sigs.k8s.io/kwok");
        requires(&HELM, "helm.sh/helm/v4");
        requires(&ACTIONLINT, "github.com/rhysd/actionlint");
        requires(&KUEUE, "sigs.k8s.io/kueue");
        requires(&SCHEDULER_PLUGINS, "sigs.k8s.io/scheduler-plugins");
    }

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
