//! The Python that Flux starts its commands with: the program, its own modules, and the packages that Flux
//! imports.
//!
//! The packages are put among Python's own modules, where every Python looks, whatever its distribution
//! calls the directory for packages.

use super::collector::{Collector, PROGRAMS};
use super::contents::Part;
use super::left_out;
use crate::compiled::python_version;
use std::path::{Path, PathBuf};

/// Packages that Flux imports: the names of their files or directories, and whether Flux needs them.
const PACKAGES: [(&str, bool); 6] = [
    ("_cffi_backend", true),
    ("cffi", true),
    ("yaml", true),
    ("ply", true),
    ("_yaml", false),
    ("pycparser", false),
];

/// Collects Python for a `flux` that has the path `compiled` compiled in; returns its path in the view.
pub(super) fn collect(collector: &mut Collector<'_>, compiled: Option<&Path>) -> Option<PathBuf> {
    let Some(compiled) = compiled else {
        collector.contents.fault(
            "flux has no path of a Python compiled in, as `/mnt/flux/view/bin/python3`",
            "pack a flux that was configured with a Python",
        );
        return None;
    };
    let Ok(relative) = compiled.strip_prefix(collector.view).map(Path::to_owned) else {
        let wanted = collector.view.join("bin/python3");
        collector.contents.fault(
            format!("flux starts its commands with {}", compiled.display()),
            format!(
                "application images have no such Python: configure Flux with PYTHON={0}, and let {0} be \
                 a link to your Python meanwhile",
                wanted.display()
            ),
        );
        return None;
    };
    let program = program(collector, compiled)?;
    if program.starts_with(collector.view) {
        // It is a part of the prefix, with all that it needs.
        return Some(compiled.to_owned());
    }
    let version = version(collector, &program, compiled)?;
    let name = format!("python{version}");
    let in_view = Path::new("bin").join(&name);
    collector.file(&in_view, &program, Part::Python);
    let absolute = collector.view.join(&in_view);
    // In the place of the link that the prefix may have there.
    for alias in [relative, "bin/python3".into()] {
        if alias != in_view {
            collector.contents.entries.remove(&alias);
            let near = alias.parent() == in_view.parent();
            let target = if near { PathBuf::from(&name) } else { absolute.clone() };
            collector.contents.link(alias, Part::Python, target);
        }
    }
    modules(collector, &program, &name);
    bindings(collector, &name);
    Some(absolute)
}

/// The program behind the path that `flux` knows.
fn program(collector: &mut Collector<'_>, compiled: &Path) -> Option<PathBuf> {
    let name = compiled.file_name().unwrap_or_default();
    let elsewhere = PROGRAMS.iter().map(|directory| Path::new(directory).join(name));
    let mut candidates = std::iter::once(compiled.to_owned()).chain(elsewhere);
    let found = candidates.find_map(|path| {
        collector.places.file(&path).and_then(|_| collector.places.resolve(&path).ok())
    });
    if found.is_none() {
        let cause = format!("there is no Python at {}, nor in {}", compiled.display(), PROGRAMS[0]);
        collector.contents.fault(cause, "install the Python that Flux was configured with");
    }
    found
}

fn version(collector: &mut Collector<'_>, program: &Path, compiled: &Path) -> Option<String> {
    let of = |path: &Path| {
        path.file_name().and_then(|name| python_version(name.to_str()?)).map(str::to_owned)
    };
    let version = of(program).or_else(|| of(compiled));
    if version.is_none() {
        let cause = format!("the version of {} is not in its name", program.display());
        collector.contents.fault(cause, "let python3 be a link to python3.N");
    }
    version
}

/// Python's own modules, and the packages among them.
fn modules(collector: &mut Collector<'_>, program: &Path, name: &str) {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(program);
    let directories = ["lib64", "lib"].map(|library| Path::new(library).join(name));
    let is_there = |directory: &&PathBuf| {
        collector.places.file(&prefix.join(directory).join("os.py")).is_some()
    };
    let Some(modules) = directories.iter().find(is_there) else {
        let cause = format!("no modules of {name} (os.py) in {}/lib", prefix.display());
        collector.contents.fault(cause, "install all of Python's standard library");
        return;
    };
    collector.tree(modules, &prefix.join(modules), Part::Python, &left_out::of_python);
    let mut sites = Vec::new();
    for prefix in [prefix, Path::new("/usr"), Path::new("/usr/local")] {
        for library in
            [name, "python3"].iter().flat_map(|it| ["lib64", "lib"].map(|lib| (lib, *it)))
        {
            let directory = prefix.join(library.0).join(library.1);
            sites.extend(["site-packages", "dist-packages"].map(|site| directory.join(site)));
        }
    }
    for (package, needed) in PACKAGES {
        if !add_package(collector, modules, &sites, package) && needed {
            let cause = format!("{name} has no package {package}, which Flux imports");
            collector
                .contents
                .fault(cause, "install the packages cffi, PyYAML and ply of this Python");
        }
    }
}

/// The package's files from the first of `sites` that has it.
fn add_package(
    collector: &mut Collector<'_>,
    modules: &Path,
    sites: &[PathBuf],
    package: &str,
) -> bool {
    let is_of_package = |name: &String| {
        // A directory, or a file as `_cffi_backend.cpython-311-x86_64-linux-gnu.so`.
        let is_module = Path::new(name).extension().is_some_and(|it| it == "so" || it == "py");
        let rest = name.strip_prefix(package);
        rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && is_module))
    };
    for site in sites {
        let names: Vec<_> =
            collector.places.names(site).into_iter().filter(is_of_package).collect();
        for name in &names {
            let (path, from) = (modules.join(name), site.join(name));
            if collector.places.directory(&from).is_some() {
                collector.tree(&path, &from, Part::Python, &left_out::of_python);
            } else {
                collector.file(&path, &from, Part::Python);
            }
        }
        if !names.is_empty() {
            return true;
        }
    }
    false
}

/// Flux's own modules are for one version of Python.
fn bindings(collector: &mut Collector<'_>, name: &str) {
    let names = collector.places.names(&collector.view.join("lib/flux"));
    let versions: Vec<_> =
        names.into_iter().filter(|name| python_version(name).is_some()).collect();
    if !versions.is_empty() && !versions.iter().any(|version| version == name) {
        let cause =
            format!("Flux's modules are for {}, and its Python is {name}", versions.join(", "));
        collector.contents.fault(cause, "pack Flux with the Python that it was built for");
    }
}
