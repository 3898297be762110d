//! The contents of a packed view before it is written: files and directories from Flux's prefix and from the file system
//! around it.

use crate::compiled::Compiled;
use flux_agent::linking::{Elf, Sysroot, is_elf};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

pub(super) const PROGRAMS: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// The files in Flux's prefix.
    Flux,
    Python,
    /// bash, also as `sh`.
    Shell,
    /// Lua and the modules that Flux's Lua programs import.
    Lua,
    /// The loader and the C library.
    CLibrary,
    Libraries,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Flux => "Flux",
            Self::Python => "Python",
            Self::Shell => "bash",
            Self::Lua => "Lua",
            Self::CLibrary => "C library",
            Self::Libraries => "libraries",
        })
    }
}

#[derive(Debug)]
pub(super) enum Content {
    File {
        /// Path on this machine.
        source: PathBuf,
        /// Path in the file system that is collected from, without links.
        found: PathBuf,
        elf: Option<Box<Elf>>,
    },
    Link(PathBuf),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) part: Part,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) struct Fault {
    pub(super) cause: String,
    pub(super) remedy: String,
}

impl Fault {
    pub(super) fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: remedy.into() }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The file system that is collected from, with Flux at the run-time path of the view.
    pub(super) sysroot: Sysroot,
    pub(super) view: PathBuf,
    pub(super) entries: BTreeMap<PathBuf, Entry>,
    pub(super) compiled: Compiled,
    pub(super) machine: u16,
    pub(super) loader: PathBuf,
    pub(super) library_directories: Vec<PathBuf>,
    pub(super) additions: BTreeMap<PathBuf, String>,
    /// The directory of the extension modules that an image's own Python also loads.
    pub(super) extensions: Option<PathBuf>,
    /// The run-time paths of interpreters of scripts, by name.
    pub(super) interpreters: BTreeMap<String, PathBuf>,
    pub(super) left_out: Amount,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Contents {
    pub(super) fn link(&mut self, path: &Path, part: Part, target: impl Into<PathBuf>) {
        let entry = Entry { part, content: Content::Link(target.into()) };
        self.entries.entry(path.to_owned()).or_insert(entry);
    }

    pub(super) fn fault(&mut self, cause: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault::new(cause, remedy));
    }

    pub(super) fn elfs(&self) -> impl Iterator<Item = (&Path, &Path, &Elf)> {
        self.entries.iter().filter_map(|(path, entry)| match &entry.content {
            Content::File { found, elf: Some(elf), .. } => {
                Some((path.as_path(), found.as_path(), elf.as_ref()))
            }
            Content::File { .. } | Content::Link(_) => None,
        })
    }

    pub(super) fn file(&mut self, path: &Path, from: &Path, part: Part) {
        let (Ok(found), Some(source)) = (self.sysroot.resolve(from), self.sysroot.file(from))
        else {
            return;
        };
        match headers(&source) {
            Ok(elf) => {
                let content = Content::File { source, found, elf: elf.map(Box::new) };
                self.entries.entry(path.to_owned()).or_insert(Entry { part, content });
            }
            Err(reason) => self.fault(
                format!("{}: {reason}", from.display()),
                "make it readable and complete, or remove it",
            ),
        }
    }

    /// Adds the directory `from` at `path` of the view, without the relative paths that are `left_out`.
    pub(super) fn tree(
        &mut self,
        path: &Path,
        from: &Path,
        part: Part,
        left_out: &dyn Fn(&Path) -> bool,
    ) {
        let mut directories = vec![PathBuf::new()];
        while let Some(directory) = directories.pop() {
            for name in self.sysroot.names(&from.join(&directory)) {
                let relative = directory.join(name);
                let source = from.join(&relative);
                if left_out(&relative) {
                    self.leave_out(&source);
                } else if let Some(target) = self.working_link(from, &source) {
                    self.link(&path.join(&relative), part, target);
                } else if self.sysroot.file(&source).is_some() {
                    self.file(&path.join(&relative), &source, part);
                } else if self.sysroot.directory(&source).is_none() {
                    let shown = source.display();
                    self.warnings.push(format!("left out the broken link {shown}"));
                } else if !self.leads_back(&source) {
                    directories.push(relative);
                }
            }
        }
    }

    /// Adds the wanted files and directories in `from` at `path` of the view. Returns whether there are any.
    pub(super) fn named(
        &mut self,
        path: &Path,
        from: &Path,
        part: Part,
        is_wanted: impl Fn(&str) -> bool,
        left_out: &dyn Fn(&Path) -> bool,
    ) -> bool {
        let mut names = self.sysroot.names(from);
        names.retain(|name| is_wanted(name));
        for name in &names {
            let (path, from) = (path.join(name), from.join(name));
            if self.sysroot.directory(&from).is_some() {
                self.tree(&path, &from, part, left_out);
            } else {
                self.file(&path, &from, part);
            }
        }
        !names.is_empty()
    }

    /// The target of the link at `source`, if the link works in the view: a relative link has to lead into `tree`, an
    /// absolute one into the view.
    fn working_link(&self, tree: &Path, source: &Path) -> Option<PathBuf> {
        let directory = self.sysroot.directory(source.parent()?)?;
        let target = fs::read_link(directory.join(source.file_name()?)).ok()?;
        let found = self.sysroot.resolve(source).ok()?;
        let around = if target.is_absolute() { &self.view } else { tree };
        found.starts_with(around).then_some(target)
    }

    /// Whether the directory at `source` is a link to one of its parents.
    fn leads_back(&self, source: &Path) -> bool {
        self.sysroot.resolve(source).is_ok_and(|found| found != source && source.starts_with(found))
    }

    fn leave_out(&mut self, source: &Path) {
        let mut sources = vec![source.to_owned()];
        while let Some(source) = sources.pop() {
            if let Some(file) = self.sysroot.file(&source) {
                self.left_out.add(file.metadata().map_or(0, |found| found.len()));
            } else if self.sysroot.resolve(&source).is_ok_and(|found| found == source) {
                sources.extend(self.sysroot.names(&source).iter().map(|name| source.join(name)));
            }
        }
    }

    /// The program at `path` or, if there is none, the program of this name that a distribution installs.
    pub(super) fn installed(&self, path: &Path) -> Option<PathBuf> {
        let name = path.file_name().unwrap_or_default();
        let elsewhere = PROGRAMS.iter().map(|directory| Path::new(directory).join(name));
        let mut paths = std::iter::once(path.to_owned()).chain(elsewhere);
        paths.find(|path| self.sysroot.file(path).is_some())
    }
}

/// The headers of the file at `path`, if it is a program or library. The error is why it cannot be read.
fn headers(path: &Path) -> Result<Option<Elf>, String> {
    let data = fs::read(path).map_err(|error| error.to_string())?;
    let elf = is_elf(&data).then(|| Elf::read(&*data)).transpose();
    elf.map_err(|error| error.to_string())
}
