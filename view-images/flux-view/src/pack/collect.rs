//! What a view needs: Flux, an interpreter for each kind of script, and all libraries.

use super::collector::Collector;
use super::contents::{Contents, Part};
use super::{left_out, python};
use crate::compiled::Compiled;
use crate::elf::{Elf, is_of_c_library, machine_name};
use crate::libraries::Libraries;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where the view has libraries, relative to it.
const LIBRARIES: &str = "lib";
/// What libraries load by name at run time: the C library does, to end threads.
const LOADED_BY_NAME: [&str; 1] = ["libgcc_s.so.1"];

/// What was collected, and what is written into the programs of the view.
#[derive(Debug)]
pub(super) struct Collected {
    /// What goes into the view.
    pub(super) contents: Contents,
    /// What `flux` has compiled in.
    pub(super) compiled: Compiled,
    /// The processor that `flux` is for.
    pub(super) machine: u16,
    /// The loader, relative to the view.
    pub(super) loader: PathBuf,
    /// Directories of libraries, relative to the view.
    pub(super) library_directories: Vec<PathBuf>,
    /// Interpreters of scripts by their names, as paths at run time.
    pub(super) interpreters: BTreeMap<String, PathBuf>,
}

impl Collector<'_> {
    /// Collects everything, and calls `progress` before each stage.
    pub(super) fn collect(mut self, progress: &mut dyn FnMut(&str)) -> Collected {
        progress("collects Flux");
        let prefix = self.view.to_owned();
        self.tree(Path::new(""), &prefix, Part::Flux, &left_out::of_prefix);
        let data = self.places.read(&prefix.join("bin/flux")).unwrap_or_default();
        let compiled = Compiled::read(&data, self.view);
        let flux = self.flux(&data, &compiled);
        progress("collects Python, bash and Lua");
        let mut interpreters = BTreeMap::new();
        if let Some(python) = python::collect(&mut self, compiled.python.as_deref()) {
            interpreters.insert("python".to_owned(), python);
        }
        self.shell(&mut interpreters);
        self.lua(&mut interpreters);
        progress("collects libraries");
        let loader = self.loader(&flux);
        let library_directories = self.libraries(&flux);
        let contents = self.contents;
        let machine = flux.machine;
        Collected { contents, compiled, machine, loader, library_directories, interpreters }
    }

    /// The headers of `flux`, which has to be a program for this view.
    fn flux(&mut self, data: &[u8], compiled: &Compiled) -> Elf {
        let elf = match Elf::read(data) {
            Ok(elf) if elf.interpreter.is_some() => elf,
            Ok(_) | Err(_) => {
                self.contents.fault(
                    "bin/flux is no program that is loaded with shared libraries",
                    "give the prefix of the installation itself, not of a wrapper around it",
                );
                return Elf::default();
            }
        };
        if !compiled.for_view {
            let view = self.view.display();
            self.contents.fault(
                format!("flux looks for nothing below {view}: it was built for another prefix"),
                format!("build Flux with the prefix {view}, or give its --mount-path"),
            );
        }
        elf
    }

    /// bash, which the scripts that Flux starts with `sh` run with too.
    fn shell(&mut self, interpreters: &mut BTreeMap<String, PathBuf>) {
        let Some(bash) = self.installed("bash") else {
            self.contents.fault(
                "there is no bash: Flux starts tasks of its own with it, and images may have none",
                "install bash",
            );
            return;
        };
        self.file(Path::new("bin/bash"), &bash, Part::Shell);
        self.contents.link("bin/sh", Part::Shell, "bash");
        for name in ["bash", "sh"] {
            interpreters.insert(name.to_owned(), self.view.join("bin").join(name));
        }
    }

    /// The Lua that Flux's own modules for Lua are for, where it is installed. The job shell has its own.
    fn lua(&mut self, interpreters: &mut BTreeMap<String, PathBuf>) {
        let Some(version) = self.places.names(&self.view.join("lib/lua")).pop() else { return };
        let Some(lua) = self.installed(&format!("lua{version}")) else { return };
        self.file(Path::new("bin/lua"), &lua, Part::Lua);
        interpreters.insert("lua".to_owned(), self.view.join("bin/lua"));
        let modules = Path::new("lua").join(version);
        let names = Libraries::names_of_directories(self.places);
        let shared = names.iter().map(|name| (name.join(&modules), "lib"));
        let sources = shared.chain([(Path::new("/usr/share").join(&modules), "share")]);
        for (source, place) in sources {
            for name in self.places.names(&source) {
                if !name.starts_with("posix") && !name.starts_with("bit32") {
                    continue;
                }
                let (path, from) =
                    (Path::new(place).join(&modules).join(&name), source.join(&name));
                if self.places.directory(&from).is_some() {
                    self.tree(&path, &from, Part::Lua, &|_| false);
                } else {
                    self.file(&path, &from, Part::Lua);
                }
            }
        }
        let posix = Path::new("share").join(&modules).join("posix");
        if self.contents.entries.contains_key(&posix.join("init.lua")) {
            // Flux's search path for Lua modules has no `init.lua`.
            self.contents.link(posix.with_extension("lua"), Part::Lua, "posix/init.lua");
        }
    }

    /// The loader of `flux`; returns where the view has it.
    fn loader(&mut self, flux: &Elf) -> PathBuf {
        let loader = PathBuf::from(flux.interpreter.as_deref().unwrap_or("loader"));
        let path = Path::new(LIBRARIES).join(loader.file_name().unwrap_or_default());
        if self.places.file(&loader).is_some() {
            self.file(&path, &loader, Part::CLibrary);
        } else if flux.interpreter.is_some() {
            let cause = format!("there is no {}, which flux is started by", loader.display());
            self.contents.fault(cause, "pack where flux runs");
        }
        path
    }

    /// The libraries of all that was collected, and theirs; returns the directories in the view that have
    /// libraries.
    fn libraries(&mut self, flux: &Elf) -> Vec<PathBuf> {
        let own = ["lib", "lib64"].map(|directory| self.view.join(directory));
        let libraries = Libraries::new(self.places, flux.machine, own.to_vec());
        let mut directories = BTreeSet::new();
        let mut missing: BTreeMap<String, (String, Vec<PathBuf>)> = BTreeMap::new();
        for name in LOADED_BY_NAME {
            if let Ok(library) = libraries.find(name, Path::new("/"), &Elf::default(), &[]) {
                self.file(&Path::new(LIBRARIES).join(name), &library.path, Part::Libraries);
            }
        }
        let mut done = BTreeSet::new();
        loop {
            let todo: Vec<(PathBuf, PathBuf, Elf)> = self
                .contents
                .elfs()
                .filter(|(path, _, elf)| elf.machine == flux.machine && !done.contains(*path))
                .map(|(path, found, elf)| (path.to_owned(), found.to_owned(), elf.clone()))
                .collect();
            if todo.is_empty() {
                break;
            }
            for (path, found, elf) in todo {
                for name in &elf.needed {
                    match libraries.find(name, &found, &elf, &flux.rpath) {
                        Ok(library) => directories.extend(self.library(name, &library.path)),
                        Err(searched) => {
                            let by = path.display().to_string();
                            missing.entry(name.clone()).or_insert((by, searched));
                        }
                    }
                }
                done.insert(path);
            }
        }
        self.report_missing(missing);
        self.report_foreign(flux);
        let first = PathBuf::from(LIBRARIES);
        directories.remove(&first);
        std::iter::once(first).chain(directories).collect()
    }

    /// Takes the library `name`, unless it is a part of the prefix; then returns its directory there.
    fn library(&mut self, name: &str, found: &Path) -> Option<PathBuf> {
        if let Ok(relative) = found.strip_prefix(self.view) {
            return relative.parent().map(Path::to_owned);
        }
        let file_name = Path::new(name).file_name().unwrap_or_default();
        let part = if is_of_c_library(name) { Part::CLibrary } else { Part::Libraries };
        self.file(&Path::new(LIBRARIES).join(file_name), found, part);
        None
    }

    fn report_missing(&mut self, missing: BTreeMap<String, (String, Vec<PathBuf>)>) {
        for (name, (by, searched)) in missing {
            let searched: Vec<_> = searched.iter().map(|it| it.display().to_string()).collect();
            self.contents.fault(
                format!("{by} needs {name}, which is not in {}", searched.join(", ")),
                "install the package that has it, or name its directory in /etc/ld.so.conf",
            );
        }
    }

    /// Programs for another processor cannot be given their libraries.
    fn report_foreign(&mut self, flux: &Elf) {
        let foreign: Vec<String> = self
            .contents
            .elfs()
            .filter(|(_, _, elf)| elf.machine != flux.machine)
            .map(|(path, _, elf)| {
                format!("{} is for {}", path.display(), machine_name(elf.machine))
            })
            .collect();
        self.contents.warnings.extend(foreign);
    }
}
