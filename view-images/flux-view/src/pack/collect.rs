//! Collects the contents of a view: Flux, an interpreter for each kind of script, and all libraries.

use super::contents::{Contents, Fault, Part};
use super::{left_out, python};
use crate::compiled::Compiled;
use flux_agent::linking::{Elf, Libraries, is_of_c_library, machine_name};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

const LIBRARIES: &str = "lib";
/// Libraries that others load by name at run time: the C library loads this one to end threads.
const LOADED_BY_NAME: [&str; 1] = ["libgcc_s.so.1"];

impl Contents {
    pub(super) fn collect(&mut self, progress: fn(&str)) {
        progress("collecting Flux");
        self.tree(Path::new(""), &self.view.clone(), Part::Flux, &left_out::of_prefix);
        let flux = self.flux();
        progress("collecting Python, bash and Lua");
        python::collect(self);
        self.shell();
        self.lua();
        progress("collecting libraries");
        self.loader(&flux);
        self.libraries(&flux);
    }

    fn flux(&mut self) -> Elf {
        let data = self.sysroot.read(&self.view.join("bin/flux")).unwrap_or_default();
        self.compiled =
            Compiled::read(&data, &Compiled::core(&self.sysroot, &self.view), &self.view);
        let elf = Elf::read(&*data).ok().filter(|elf| elf.interpreter.is_some());
        let Some(elf) = elf else {
            self.fault(
                "bin/flux is not a dynamically linked program",
                "use the prefix of the installation itself, not of a wrapper",
            );
            return Elf::default();
        };
        self.machine = elf.machine;
        if !self.compiled.for_view {
            let view = self.view.display();
            self.fault(
                format!("flux looks for nothing below {view}: it was built for another prefix"),
                format!("build Flux with the prefix {view}, or use its --mount-path"),
            );
        }
        elf
    }

    fn shell(&mut self) {
        let Some(bash) = self.installed(&self.view.join("bin/bash")) else {
            self.fault(
                "there is no bash: Flux starts its own tasks with it, and images may lack it",
                "install bash",
            );
            return;
        };
        self.file(Path::new("bin/bash"), &bash, Part::Shell);
        self.link(Path::new("bin/sh"), Part::Shell, "bash");
        for name in ["bash", "sh"] {
            self.interpreters.insert(name.to_owned(), self.view.join("bin").join(name));
        }
    }

    /// Adds the Lua for which Flux has modules, if it is installed. The job shell has a Lua of its own.
    fn lua(&mut self) {
        let Some(version) = self.sysroot.names(&self.view.join("lib/lua")).pop() else { return };
        let Some(lua) = self.installed(&self.view.join(format!("bin/lua{version}"))) else {
            return;
        };
        self.file(Path::new("bin/lua"), &lua, Part::Lua);
        self.interpreters.insert("lua".to_owned(), self.view.join("bin/lua"));
        let modules = Path::new("lua").join(version);
        let names = Libraries::names_of_directories(&self.sysroot);
        let shared = names.iter().map(|name| (name.join(&modules), "lib"));
        let sources = shared.chain([(Path::new("/usr/share").join(&modules), "share")]);
        for (source, place) in sources {
            let is_used = |name: &str| name.starts_with("posix") || name.starts_with("bit32");
            let to = Path::new(place).join(&modules);
            self.named(&to, &source, Part::Lua, is_used, &|_| false);
        }
        let posix = Path::new("share").join(&modules).join("posix");
        if self.entries.contains_key(&posix.join("init.lua")) {
            // Flux's search path for Lua modules does not contain `?/init.lua`.
            self.link(&posix.with_extension("lua"), Part::Lua, "posix/init.lua");
        }
    }

    fn loader(&mut self, flux: &Elf) {
        let loader = PathBuf::from(flux.interpreter.as_deref().unwrap_or("loader"));
        let path = Path::new(LIBRARIES).join(loader.file_name().unwrap_or_default());
        if self.sysroot.file(&loader).is_some() {
            self.file(&path, &loader, Part::CLibrary);
        } else if flux.interpreter.is_some() {
            let cause = format!("there is no {}, the loader of flux", loader.display());
            self.fault(cause, "run flux-view where flux runs");
        }
        self.loader = path;
    }

    fn libraries(&mut self, flux: &Elf) {
        let own = ["lib", "lib64"].map(|directory| self.view.join(directory));
        let sysroot = self.sysroot.clone();
        let libraries = Libraries::new(&sysroot, flux.machine, own.to_vec());
        for name in LOADED_BY_NAME {
            if let Ok(library) = libraries.find(name, Path::new("/"), &Elf::default(), &[]) {
                self.file(&Path::new(LIBRARIES).join(name), &library.path, Part::Libraries);
            }
        }
        let (mut todo, mut foreign) = (VecDeque::new(), Vec::new());
        for (path, found, elf) in self.elfs() {
            if elf.machine == flux.machine {
                todo.push_back((path.to_owned(), found.to_owned(), elf.clone()));
            } else {
                // Its libraries are for another processor and cannot be found here.
                let machine = machine_name(elf.machine);
                foreign.push(format!("{} is for {machine}", path.display()));
            }
        }
        let mut directories = BTreeSet::new();
        let mut missing = BTreeMap::new();
        while let Some((path, found, elf)) = todo.pop_front() {
            for name in &elf.needed {
                match libraries.find(name, &found, &elf, &flux.rpath) {
                    Ok(library) => {
                        if let Ok(relative) = library.path.strip_prefix(&self.view) {
                            directories.extend(relative.parent().map(Path::to_owned));
                        } else if let Some(path) = self.library(name, &library.path) {
                            todo.extend(self.plugins(name, &library.path));
                            todo.push_back((path, library.path, library.elf));
                        }
                    }
                    Err(searched) => {
                        missing
                            .entry(name.clone())
                            .or_insert_with(|| is_missing(name, &path, &searched));
                    }
                }
            }
        }
        self.warnings.extend(foreign);
        self.faults.extend(missing.into_values());
        let first = PathBuf::from(LIBRARIES);
        directories.remove(&first);
        self.library_directories = std::iter::once(first).chain(directories).collect();
    }

    fn library(&mut self, name: &str, found: &Path) -> Option<PathBuf> {
        let path = Path::new(LIBRARIES).join(Path::new(name).file_name().unwrap_or_default());
        let part = if is_of_c_library(name) { Part::CLibrary } else { Part::Libraries };
        let is_new = !self.entries.contains_key(&path);
        self.file(&path, found, part);
        is_new.then_some(path)
    }

    /// Adds and returns the plugins of libpmix, if the library `name` is libpmix: it loads them from a directory beside
    /// it. The agent sets the path of that directory for libpmix.
    fn plugins(&mut self, name: &str, found: &Path) -> Vec<(PathBuf, PathBuf, Elf)> {
        if !name.starts_with("libpmix.so") {
            return Vec::new();
        }
        let to = Path::new(LIBRARIES).join("pmix");
        self.tree(&to, &found.with_file_name("pmix"), Part::Libraries, &|_| false);
        let plugins = self.elfs().filter(|(path, ..)| path.starts_with(&to));
        plugins.map(|(path, found, elf)| (path.into(), found.into(), elf.clone())).collect()
    }
}

fn is_missing(name: &str, by: &Path, searched: &[PathBuf]) -> Fault {
    let searched: Vec<_> =
        searched.iter().map(|directory| directory.display().to_string()).collect();
    let searched = searched.join(", ");
    Fault::new(
        format!("{} needs {name}, which is not in {searched}", by.display()),
        "install its package, or add its directory to /etc/ld.so.conf",
    )
}
