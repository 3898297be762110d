//! Builds programs from the Go module proxy that no Debian package has in the wanted version.
//!
//! `e2e/go/recipes.yaml` has the arguments of `go build`. The go.mod and go.sum files beside it pin every module; Go
//! checks its downloads against them.

use super::options::Nodes;
use super::version::KubernetesVersion;
use crate::cache;
use crate::prelude::*;
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use walkdir::WalkDir;

/// The directory of the modules in that of the artefact, while it is made.
const SOURCE: &str = "source";

/// The directory of the programs that are built from a directory below `e2e/go`, and of what their recipe keeps
/// beside them; built if the cache does not have it yet.
pub fn go_programs(source: &str, cache: &Cache) -> Result<PathBuf> {
    let recipe = Recipe::of(source)?;
    let key = recipe.key()?;
    if let Some(found) = cache.find(&key) {
        return Ok(found);
    }
    let what = format!("building {} {}", recipe.name, recipe.version);
    progress::long_step(&what, &recipe.usually, || {
        cache.artefact(&key, |directory| recipe.build(directory, &cache.log_of(&key)))
    })
}

/// One `go build`: an entry of `recipes.yaml`, which describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    version: String,
    /// The directory with the `go.mod`.
    #[serde(skip)]
    source: PathBuf,
    module: Option<String>,
    usually: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    link: String,
    packages: Vec<String>,
    #[serde(default)]
    keep: Vec<Directory>,
}

/// A directory of a module, and its name beside the programs.
#[derive(Debug, Deserialize)]
struct Directory {
    module: String,
    path: String,
    name: String,
}

impl Recipe {
    fn of(source: &str) -> Result<Self> {
        let go = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../go"));
        let text = fs::read_to_string(go.join("recipes.yaml"))?;
        let mut recipes: BTreeMap<String, Self> =
            serde_saphyr::from_str(&text).context("understanding recipes.yaml")?;
        let name = source.split('/').next().unwrap_or(source);
        let recipe = recipes.remove(name).with_context(|| format!("no recipe for {name}"))?;
        let source = go.join(source);
        let version = match &recipe.module {
            Some(module) => required(&fs::read_to_string(source.join("go.mod"))?, module)
                .with_context(|| format!("{} does not require {module}", source.display()))?,
            None => "1".to_owned(),
        };
        Ok(Self { name: name.to_owned(), version, source, ..recipe })
    }

    fn key(&self) -> Result<String> {
        let mut inputs = vec![("arguments".to_owned(), self.arguments().join(" ").into_bytes())];
        for name in files(&self.source)? {
            inputs.push((name.display().to_string(), fs::read(self.source.join(name))?));
        }
        let inputs: Vec<_> = inputs.iter().map(|(name, it)| (name.as_str(), &it[..])).collect();
        Ok(cache::key(&self.name, &self.version, &inputs))
    }

    fn arguments(&self) -> Vec<String> {
        let link = format!("-ldflags=-s -w {}", self.link.replace("@version@", &self.version));
        // The linker omits debug information (`-w`). Without it, the compiler takes a seventh less time.
        let fixed =
            ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false"]
                .map(str::to_owned);
        let output = [link.trim_end(), "-o", "../"].map(str::to_owned);
        [&fixed, &self.flags[..], &output, &self.packages].concat()
    }

    /// Leaves nothing in `directory` but the programs and the recipe's directories of modules.
    fn build(&self, directory: &Path, log: &Path) -> Result<()> {
        if programs::find("go").is_none() {
            bail!("building {} needs Go 1.26 or later, see https://go.dev/dl", self.name);
        }
        let source = directory.join(SOURCE);
        copy(&self.source, &source)?;
        let output = File::create(log)?.into_file();
        let errors = output.try_clone()?;
        let mut go = Command::new("go");
        go.args(self.arguments()).current_dir(&source).env("CGO_ENABLED", "0").env("GOWORK", "off");
        // The compiler takes less time if its garbage collector runs less often.
        go.env("GOGC", "200");
        programs::show(go.stdin(Stdio::null()).stdout(output).stderr(errors)).with_context(
            || {
                let tail = programs::tail(log, 20);
                format!("building {}; {}:\n{tail}", self.name, log.display())
            },
        )?;
        for Directory { module, path, name } in &self.keep {
            let mut list = Command::new("go");
            list.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]);
            let output = programs::run(list.current_dir(&source).env("GOWORK", "off"))?;
            let from = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join(path);
            copy(&from, &directory.join(name))
                .with_context(|| format!("copying {path} of the module {module}"))?;
        }
        cache::remove_tree(&source)
    }
}

/// The version of the module that the text of a go.mod requires.
fn required(text: &str, module: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.trim_start_matches("require ").split_whitespace();
        if words.next()? == module { words.next().map(str::to_owned) } else { None }
    })
}

/// The files of a directory and of those in it, by their names there: those of the directory itself come first.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in WalkDir::new(directory).follow_links(true) {
        let entry = entry?;
        if entry.file_type().is_file() {
            found.push(entry.path().strip_prefix(directory)?.to_owned());
        }
    }
    found.sort_by_key(|name| (name.components().count(), name.clone()));
    Ok(found)
}

/// Copies a directory to where there is none yet. Not its modes: Go keeps modules read-only.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.args(["--recursive", "--dereference", "--no-preserve=mode"]).arg(from).arg(to);
    programs::run(&mut cp).map(drop)
}

/// Where the built programs are, on this machine; each directory lies directly in [`Cache::built`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// etcd, kube-apiserver, kube-controller-manager, kube-proxy, kube-scheduler, kubectl, kubelet.
    pub(super) kubernetes: PathBuf,
    /// containerd, containerd-shim-runc-v2, ctr of each node, the first of which has the newest.
    pub(super) containerd: Vec<PathBuf>,
    pub(super) coredns: PathBuf,
    pub(super) pause: PathBuf,
    /// Only for simulated nodes.
    pub(super) kwok: Option<PathBuf>,
}

impl Built {
    /// Builds what the cache does not have yet.
    pub fn ensure(cache: &Cache, version: KubernetesVersion, nodes: &Nodes) -> Result<Self> {
        let build = |source: &str| go_programs(source, cache);
        let runtimes = nodes.runtimes().into_iter();
        Ok(Self {
            kwok: (*nodes == Nodes::Simulated).then(|| build("kwok")).transpose()?,
            pause: build("pause")?,
            containerd: runtimes.map(|it| build(it.source())).collect::<Result<_>>()?,
            coredns: build("coredns")?,
            kubernetes: build(&version.source())?,
        })
    }

    pub(super) fn name_of(directory: &Path) -> String {
        directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}
