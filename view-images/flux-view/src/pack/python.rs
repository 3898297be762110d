//! Collects the Python with which Flux starts its commands: the program, its own modules, and the packages that Flux
//! imports.
//!
//! The packages are in a directory of their own. Links among Python's own modules lead to them, so that the view's Python
//! finds them, whatever its distribution calls the directory for packages. The Python of an application's image finds
//! Flux's modules by `PYTHONPATH`. A module of Flux then appends the directory of packages to the search path, behind the
//! packages of the image: in `PYTHONPATH` they would replace those, which other programs there need.

use super::contents::{Content, Contents, Fault, PROGRAMS, Part};
use super::left_out;
use crate::compiled::{python_version, pythons_of_flux};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the packages, below the directory of Python's own modules.
const DIRECTORY: &str = "flux-packages";

/// The module that Python loads before any that needs the packages. In flux-core 0.88 it is empty
/// (`src/bindings/python`).
const FIRST_MODULE: &str = "_flux/__init__.py";

/// Packages that Flux imports: the names of their files or directories, and whether Flux needs them. A newer Flux may
/// import others.
const PACKAGES: [(&str, bool); 6] = [
    ("_cffi_backend", true),
    ("cffi", true),
    ("yaml", true),
    ("ply", true),
    ("_yaml", false),
    ("pycparser", false),
];

pub(super) fn collect(contents: &mut Contents) {
    match program_and_modules(contents) {
        Ok(python) => {
            contents.interpreters.insert("python".to_owned(), python);
        }
        Err(fault) => contents.faults.push(fault),
    }
}

fn program_and_modules(contents: &mut Contents) -> Result<PathBuf, Fault> {
    let compiled = contents.compiled.python.clone().ok_or_else(|| {
        let cause = "no path of a Python, as `/mnt/flux/view/bin/python3`, is compiled into flux";
        Fault::new(cause, "pack a Flux that was configured with a Python")
    })?;
    let relative = compiled.strip_prefix(&contents.view).map_err(|_| {
        let cause = format!("flux starts its commands with {}", compiled.display());
        let remedy = format!(
            "application images have no such Python: configure Flux with PYTHON={0}, and let {0} be \
             a link to your Python meanwhile",
            contents.view.join("bin/python3").display()
        );
        Fault::new(cause, remedy)
    })?;
    let program = program(contents, &compiled)?;
    if program.starts_with(&contents.view) {
        // The prefix contains this Python and everything that it needs.
        return Ok(compiled);
    }
    let name = name_with_version(&program, &compiled)?;
    let in_view = Path::new("bin").join(&name);
    contents.file(&in_view, &program, Part::Python);
    let absolute = contents.view.join(&in_view);
    // Replaces the link that the prefix may have at this path.
    for alias in [relative, Path::new("bin/python3")] {
        if alias != in_view {
            contents.entries.remove(alias);
            let near = alias.parent() == in_view.parent();
            let target = if near { PathBuf::from(&name) } else { absolute.clone() };
            contents.link(alias, Part::Python, target);
        }
    }
    modules(contents, &program, &name);
    bindings(contents, &name);
    Ok(absolute)
}

/// The program at the path that is compiled into `flux`, without links.
fn program(contents: &Contents, compiled: &Path) -> Result<PathBuf, Fault> {
    let found = contents.installed(compiled);
    found.and_then(|path| contents.sysroot.resolve(&path).ok()).ok_or_else(|| {
        let cause = format!("there is no Python at {}, nor in {}", compiled.display(), PROGRAMS[0]);
        Fault::new(cause, "install the Python that Flux was configured with")
    })
}

fn name_with_version(program: &Path, compiled: &Path) -> Result<String, Fault> {
    let names = [program, compiled].into_iter().filter_map(|path| path.file_name()?.to_str());
    let mut with_version = names.filter(|name| python_version(name).is_some());
    with_version.next().map(str::to_owned).ok_or_else(|| {
        let cause = format!("the version of {} is not in its name", program.display());
        Fault::new(cause, "make python3 a link to python3.N")
    })
}

fn modules(contents: &mut Contents, program: &Path, name: &str) {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(program);
    let directories = ["lib64", "lib"].map(|library| Path::new(library).join(name));
    let is_there = |directory: &&PathBuf| {
        contents.sysroot.file(&prefix.join(directory).join("os.py")).is_some()
    };
    let Some(modules) = directories.iter().find(is_there) else {
        let cause = format!("no modules of {name} (os.py) in {}/lib", prefix.display());
        contents.fault(cause, "install all of Python's standard library");
        return;
    };
    contents.tree(modules, &prefix.join(modules), Part::Python, &left_out::of_python);
    packages(contents, prefix, modules, name);
    lead_to_packages(contents, modules);
}

fn packages(contents: &mut Contents, prefix: &Path, modules: &Path, name: &str) {
    let to = modules.join(DIRECTORY);
    let mut sites = Vec::new();
    let libraries =
        [name, "python3"].map(|python| ["lib64", "lib"].map(|lib| Path::new(lib).join(python)));
    for prefix in [prefix, Path::new("/usr"), Path::new("/usr/local")] {
        for directory in libraries.iter().flatten().map(|library| prefix.join(library)) {
            sites.extend(["site-packages", "dist-packages"].map(|site| directory.join(site)));
        }
    }
    let mut missing: Vec<_> =
        PACKAGES.into_iter().rev().map(|(package, needed)| (package.to_owned(), needed)).collect();
    let mut tried = BTreeSet::new();
    while let Some((package, needed)) = missing.pop() {
        let is_wanted = |name: &str| is_of_package(name, &package);
        let is_there = sites
            .iter()
            .any(|site| contents.named(&to, site, Part::Python, is_wanted, &left_out::of_python));
        if needed && !is_there {
            let cause = format!("{name} has no package {package}, which Flux imports");
            contents.fault(cause, "install the packages cffi, PyYAML and ply of this Python");
        }
        tried.insert(package);
        if missing.is_empty() {
            let more = imported(contents, modules).into_iter();
            missing.extend(more.filter(|it| !tried.contains(it)).map(|package| (package, false)));
        }
    }
}

/// The packages that Flux's own modules, and packages among these, import at the start of a line. Flux runs without those
/// that are imported elsewhere.
fn imported(contents: &Contents, modules: &Path) -> BTreeSet<String> {
    let mut packages = BTreeSet::new();
    for (path, entry) in &contents.entries {
        let is_of_flux = path.extension().is_some_and(|extension| extension == "py")
            && path.iter().any(|part| part == "flux" || part == DIRECTORY)
            && !path.ends_with("setup.py");
        let Content::File { source, .. } = &entry.content else { continue };
        let text = if is_of_flux { fs::read(source).unwrap_or_default() } else { continue };
        for line in String::from_utf8_lossy(&text).lines() {
            let from = line.strip_prefix("from ").and_then(|rest| rest.split(' ').next());
            let names = line.strip_prefix("import ").or(from).unwrap_or_default().split(',');
            packages.extend(
                names.filter_map(|name| name.trim().split(['.', ' ']).next()).map(str::to_owned),
            );
        }
    }
    let is_of_python = |name: &str| {
        let module = modules.join(name);
        contents
            .entries
            .keys()
            .any(|path| path.with_extension("") == module || path.starts_with(&module))
    };
    packages.retain(|name| !["", "flux", "_flux"].contains(&&**name) && !is_of_python(name));
    packages
}

/// Adds the links among Python's own modules, and the search path for the Python of an image.
fn lead_to_packages(contents: &mut Contents, modules: &Path) {
    let directory = modules.join(DIRECTORY);
    let packages = contents.entries.keys().filter_map(|path| path.strip_prefix(&directory).ok());
    let names: BTreeSet<_> =
        packages.filter_map(|path| Some(path.iter().next()?.to_owned())).collect();
    for name in names {
        contents.link(&modules.join(&name), Part::Python, Path::new(DIRECTORY).join(name));
    }
    let first = contents.entries.keys().find(|path| path.ends_with(FIRST_MODULE)).cloned();
    let Some(first) = first else {
        let warning =
            format!("Flux has no {FIRST_MODULE}: an image's own Python needs cffi, PyYAML and ply");
        contents.warnings.push(warning);
        return;
    };
    let up = "../".repeat(first.iter().count() - 1);
    contents.additions.insert(first, search(&format!("{up}{}", directory.display())));
    contents.extensions = Some(directory);
}

/// Python code that appends `directory`, relative to the file of the code, to the search path.
fn search(directory: &str) -> String {
    format!(
        "# Added by flux-view pack: packages that Flux imports, for an image's Python that lacks them.\n\
         import os\n\
         import sys\n\n\
         sys.path.append(os.path.realpath(os.path.join(os.path.dirname(__file__), \"{directory}\")))\n"
    )
}

/// Whether `name` is the directory of the package, or its module as `_cffi_backend.cpython-311-x86_64-linux-gnu.so`.
fn is_of_package(name: &str, package: &str) -> bool {
    let is_module =
        Path::new(name).extension().is_some_and(|extension| extension == "so" || extension == "py");
    let rest = name.strip_prefix(package);
    rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('.') && is_module))
}

fn bindings(contents: &mut Contents, name: &str) {
    let versions = pythons_of_flux(&contents.sysroot, &contents.view);
    if !versions.is_empty() && !versions.iter().any(|version| version == name) {
        let cause =
            format!("Flux's modules are for {}, and its Python is {name}", versions.join(", "));
        contents.fault(cause, "pack Flux with the Python that it was built for");
    }
}
