//! Checks whether an image has a view, and whether that runs in an application's image. No program is started: both
//! images may be for another processor.

use crate::compiled::{Compiled, python_version, pythons_of_flux};
use flux_agent::linking::{
    Elf, Libraries, Sysroot, has_open_mpi_5, is_elf, is_of_c_library, machine_name, newest,
};
use flux_agent::system::below;
use flux_agent::system::check::{Check, Found};
use flux_agent::system::output::chain;
use flux_agent::view::{Source, SourceLayout, ViewError, find};
use flux_contract::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The remedy for everything that an application's image lacks.
const PACK: &str = "use a view that has its own: flux-view pack makes one";
const LIBC: &str = "libc.so.6";
const MAX_NAMES: usize = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckRequest {
    /// Root of the view image
    #[arg(value_name = "IMAGE-ROOT")]
    pub(crate) root: PathBuf,
    /// Root of an application's image
    #[arg(long, value_name = "ROOT")]
    pub(crate) application: Option<PathBuf>,
    /// Path at which the shared volume will be mounted
    #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
    pub(crate) mount_path: PathBuf,
}

pub(crate) fn check_view(request: &CheckRequest) -> Vec<Check> {
    let check = |name, found| Check { name, found };
    let source = match find(&request.root, &request.mount_path, None) {
        Ok(source) => source,
        Err(error) => {
            let seen = if let ViewError::NotFound { searched } = &error {
                format!("no Flux in {}", searched.join(", "))
            } else {
                chain(&error)
            };
            let remedy =
                "use the root of a view image, e.g. the path that `podman image mount` prints";
            return vec![check("view", Found::failed(seen, remedy))];
        }
    };
    let layout = match source.layout {
        SourceLayout::Spack => "Spack",
        SourceLayout::AtMountPath | SourceLayout::OptView | SourceLayout::Given => "flat",
    };
    let mut checks = vec![check("view", Found::ok(format!("{}, {layout}", source.view.display())))];
    let Some(pod) = Pod::new(request, &source) else {
        let remedy = "bin/flux has to be the program of Flux itself";
        checks.push(check("flux", Found::failed("bin/flux is not an ELF program", remedy)));
        return checks;
    };
    let loaded = Loaded::new(&pod);
    checks.extend([
        check("flux", version(&pod, source.layout)),
        check("loader", loader(&pod)),
        check("libraries", libraries(&pod, &loaded)),
        check("C library", c_library(&pod, &loaded)),
        check("shell", shell(&pod)),
        check("python", python(&pod)),
        check("PMIx", pmix(&pod)),
        check("access", access(&pod)),
    ]);
    checks
}

struct Pod {
    view: PathBuf,
    /// The view and its packages.
    own: Sysroot,
    /// The view, its packages and the application's image.
    all: Sysroot,
    flux: Elf,
    compiled: Compiled,
}

impl Pod {
    /// `None` if `flux` is not an ELF program.
    fn new(request: &CheckRequest, source: &Source) -> Option<Self> {
        let view = PathBuf::from(Layout::new(request.mount_path.to_string_lossy()).view());
        let view_files = below(&request.root, &source.view);
        let software = PathBuf::from(Layout::SOFTWARE_MOUNT);
        // Copying a view rewrites its links to its other paths, so all of these lead to the view.
        let names = source.names.iter().chain([&source.view, &view]);
        let mut mounts: Vec<_> = names.map(|name| (name.clone(), view_files.clone())).collect();
        mounts.push((software.clone(), below(&request.root, &software)));
        let own = Sysroot { mounts: mounts.clone(), root: None };
        let all = Sysroot { mounts, root: request.application.clone() };
        let data = own.read(&view.join("bin/flux")).unwrap_or_default();
        let flux = Elf::read(&*data).ok()?;
        let compiled = Compiled::read(&data, &Compiled::core(&own, &view), &view);
        Some(Self { view, own, all, flux, compiled })
    }

    /// The programs and modules that Flux starts or loads, with their paths.
    fn programs(&self) -> Vec<(PathBuf, Elf)> {
        let mut paths: Vec<PathBuf> =
            ["bin/flux", "bin/bash"].iter().map(|path| self.view.join(path)).collect();
        paths.extend(self.compiled.python.clone());
        let mut directories = vec![self.view.join("libexec/flux"), self.view.join("lib/flux")];
        while let Some(directory) = directories.pop() {
            for name in self.own.names(&directory) {
                let path = directory.join(name);
                if self.own.file(&path).is_some() {
                    paths.push(path);
                } else {
                    directories.push(path);
                }
            }
        }
        let read = |path: PathBuf| {
            let data = self.own.read(&path).filter(|data| is_elf(data))?;
            Some((self.own.resolve(&path).ok()?, Elf::read(&*data).ok()?))
        };
        paths.into_iter().filter_map(read).collect()
    }

    /// A failed check of the application's image; only a warning if that image is unknown.
    fn lacking(&self, seen: &str) -> Found {
        if self.all.root.is_some() {
            Found::failed(seen, PACK)
        } else {
            Found::warning(format!("{seen}: the application's image has to have it"), PACK)
        }
    }
}

#[derive(Debug, Default)]
struct Loaded {
    files: usize,
    versions: BTreeSet<String>,
    borrowed: BTreeSet<String>,
    /// The headers of the C library, and whether it is the view's.
    libc: Option<(Elf, bool)>,
    missing: BTreeMap<String, PathBuf>,
}

impl Loaded {
    fn new(pod: &Pod) -> Self {
        let flux = &pod.flux;
        let libraries = Libraries::new(&pod.all, flux.machine, Vec::new());
        // Modules are loaded into the process of `flux` and inherit its search path.
        let inherited: Vec<String> = flux.rpath.iter().chain(&flux.runpath).cloned().collect();
        let mut loaded = Self::default();
        let mut todo = pod.programs();
        let mut seen: BTreeSet<PathBuf> = todo.iter().map(|(path, _)| path.clone()).collect();
        while let Some((path, elf)) = todo.pop() {
            loaded.files += 1;
            // The parts of the C library need private versions of each other.
            if !elf.soname.as_deref().is_some_and(is_of_c_library) {
                loaded.versions.extend(elf.needed_versions.iter().cloned());
            }
            for name in &elf.needed {
                let Ok(library) = libraries.find(name, &path, &elf, &inherited) else {
                    loaded.missing.entry(name.clone()).or_insert_with(|| path.clone());
                    continue;
                };
                let is_own = pod.own.file(&library.path).is_some();
                if name == LIBC {
                    loaded.libc = Some((library.elf.clone(), is_own));
                }
                if !is_own {
                    loaded.borrowed.insert(name.clone());
                } else if seen.insert(library.path.clone()) {
                    todo.push((library.path, library.elf));
                }
            }
        }
        loaded
    }
}

fn version(pod: &Pod, layout: SourceLayout) -> Found {
    let version = pod.compiled.version.as_deref().unwrap_or("of unknown version");
    let seen = format!("{version} for {}", machine_name(pod.flux.machine));
    if layout != SourceLayout::Spack && !pod.compiled.for_view {
        let view = pod.view.display();
        return Found::failed(
            format!("{seen}, but built for another prefix than {view}"),
            format!("build Flux with the prefix {view}, or set flux.container.mountPath"),
        );
    }
    Found::ok(seen)
}

fn loader(pod: &Pod) -> Found {
    let Some(loader) = pod.flux.interpreter.as_deref() else {
        return Found::ok("flux needs none");
    };
    let path = Path::new(loader);
    if pod.own.file(path).is_some() {
        Found::ok(format!("{loader}, the view's own"))
    } else if pod.all.file(path).is_some() {
        Found::ok(format!("{loader}, the application's"))
    } else {
        pod.lacking(&format!("no {loader} (an image with musl, or without any libc, has none)"))
    }
}

fn libraries(pod: &Pod, loaded: &Loaded) -> Found {
    let is_expected = |name: &&String| !is_of_c_library(name);
    let missing: Vec<String> = loaded
        .missing
        .iter()
        .filter(|(name, _)| is_expected(name))
        .map(|(name, by)| format!("{name} (for {})", by.display()))
        .collect();
    if !missing.is_empty() {
        return pod.lacking(&format!("missing: {}", first_names(&missing)));
    }
    let borrowed: Vec<String> = loaded.borrowed.iter().filter(is_expected).cloned().collect();
    if !borrowed.is_empty() {
        return Found::warning(
            format!("from the application's image: {}", first_names(&borrowed)),
            "another version of the image may have others; a packed view has its own",
        );
    }
    Found::ok(format!("all there, for {} files", loaded.files))
}

fn c_library(pod: &Pod, loaded: &Loaded) -> Found {
    let flux = &pod.flux;
    let needed = newest(&loaded.versions).unwrap_or("no version");
    let Some((libc, is_own)) = &loaded.libc else {
        if flux.needed.is_empty() {
            return Found::ok("flux needs none");
        }
        return pod.lacking(&format!("no {LIBC} with {needed}"));
    };
    let whose = |own: bool| if own { "the view's" } else { "the application's" };
    let loader_is_own =
        flux.interpreter.as_deref().is_some_and(|loader| pod.own.file(Path::new(loader)).is_some());
    if loader_is_own != *is_own {
        return Found::failed(
            format!("the loader is {}, and {LIBC} {}", whose(loader_is_own), whose(*is_own)),
            "both have to be of one build: pack the view again with flux-view pack",
        );
    }
    let has = newest(&libc.defined_versions).unwrap_or("no version");
    if newest(loaded.versions.union(&libc.defined_versions)).is_some_and(|newest| newest != has) {
        return Found::failed(format!("needs {needed}, and {LIBC} has {has}"), PACK);
    }
    let whose = if *is_own { "the view's own" } else { "the application's" };
    Found::ok(format!("{has}, {whose}; {needed} is needed"))
}

fn shell(pod: &Pod) -> Found {
    let paths = [pod.view.join("bin/bash"), "/usr/bin/bash".into(), "/bin/bash".into()];
    match paths.iter().find(|path| pod.all.file(path).is_some()) {
        Some(bash) => Found::ok(bash.display().to_string()),
        None => pod.lacking("no bash, with which Flux starts its own tasks"),
    }
}

fn python(pod: &Pod) -> Found {
    let Some(python) = &pod.compiled.python else {
        let remedy = "most commands of Flux are Python programs: check whether they work";
        return Found::warning("no path of a Python is compiled into flux", remedy);
    };
    let shown = python.display();
    if pod.all.file(python).is_none() {
        return pod.lacking(&format!("no {shown}, with which flux starts its commands"));
    }
    let program = pod.all.resolve(python).unwrap_or_default();
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let modules = pythons_of_flux(&pod.own, &pod.view);
    let is_known = python_version(name).is_some() && !modules.is_empty();
    if is_known && !modules.iter().any(|version| version == name) {
        return Found::failed(
            format!("{shown} is {name}, and Flux's modules are for {}", modules.join(", ")),
            "use a view with the Python that its Flux was built for",
        );
    }
    Found::ok(format!("{shown} ({name})"))
}

fn pmix(pod: &Pod) -> Found {
    let names = ["lib", "lib64"].map(|lib| pod.view.join(lib).join("flux/shell/plugins/pmix.so"));
    if let Some(plugin) = names.iter().find(|path| pod.own.file(path).is_some()) {
        return Found::ok(plugin.display().to_string());
    }
    if has_open_mpi_5(&pod.all, "") {
        return Found::warning(
            "the application's image has Open MPI 5, but the view has no flux-pmix: its jobs are refused",
            "install flux-pmix into the prefix of Flux, and pack the view again",
        );
    }
    Found::ok("no flux-pmix, which Open MPI 5 needs")
}

/// Checks that every user can read the view, as Flux may run as any user.
fn access(pod: &Pod) -> Found {
    let view_files = pod.own.directory(&pod.view).unwrap_or_default();
    let mut closed = Vec::new();
    let mut files = 0;
    for entry in WalkDir::new(&view_files).min_depth(1).into_iter().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        let needed = if found.is_dir() { 0o005 } else { 0o004 };
        files += 1;
        if !found.is_symlink() && found.permissions().mode() & needed != needed {
            let path = entry.path().strip_prefix(&view_files).unwrap_or_else(|_| entry.path());
            closed.push(pod.view.join(path).display().to_string());
        }
    }
    if closed.is_empty() {
        return Found::ok(format!("{files} files and directories, open to every user"));
    }
    closed.sort();
    let seen = format!("only the owner can read: {}", first_names(&closed));
    Found::failed(seen, "run `chmod -R a+rX` on the view: Flux may run as any user")
}

fn first_names(names: &[String]) -> String {
    let text = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_agent::system::check::Finding;

    fn pod() -> Pod {
        Pod {
            view: "/mnt/flux/view".into(),
            own: Sysroot::default(),
            all: Sysroot { root: Some(PathBuf::new()), ..Sysroot::default() },
            flux: Elf { needed: vec![LIBC.to_owned()], ..Elf::default() },
            compiled: Compiled::default(),
        }
    }

    fn versions(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_older_c_library_is_reported_with_both_versions() {
        let libc = |defined: &[&str]| {
            Some((Elf { defined_versions: versions(defined), ..Elf::default() }, false))
        };
        let mut loaded = Loaded {
            versions: versions(&["GLIBC_2.38", "GLIBC_2.2.5"]),
            libc: libc(&["GLIBC_2.2.5", "GLIBC_2.36"]),
            ..Loaded::default()
        };
        let found = c_library(&pod(), &loaded);
        assert_eq!(found.finding, Finding::Failed);
        assert_eq!(found.seen, "needs GLIBC_2.38, and libc.so.6 has GLIBC_2.36");
        loaded.libc = libc(&["GLIBC_2.2.5", "GLIBC_2.38", "GLIBC_2.39"]);
        let found = c_library(&pod(), &loaded);
        assert_eq!(found.seen, "GLIBC_2.39, the application's; GLIBC_2.38 is needed");
        loaded.libc = None;
        assert_eq!(c_library(&pod(), &loaded).finding, Finding::Failed);
    }

    #[test]
    fn a_c_library_without_its_loader_is_refused() {
        let loaded = Loaded { libc: Some((Elf::default(), true)), ..Loaded::default() };
        let found = c_library(&pod(), &loaded);
        assert!(found.seen.starts_with("the loader is the application's"), "{}", found.seen);
    }

    #[test]
    fn missing_libraries_are_counted_and_some_are_named() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(first_names(&names), "a, b, c and 2 more");
        let mut loaded = Loaded::default();
        loaded.missing.insert("libzmq.so.5".to_owned(), "/mnt/flux/view/bin/flux".into());
        loaded.missing.insert("libm.so.6".to_owned(), "/mnt/flux/view/bin/flux".into());
        let found = libraries(&pod(), &loaded);
        assert_eq!(found.seen, "missing: libzmq.so.5 (for /mnt/flux/view/bin/flux)");
    }
}
