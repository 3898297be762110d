//! What goes into a packed view, before anything of it is written.

use crate::compiled::Compiled;
use crate::elf::Elf;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a file is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// What was installed in Flux's prefix.
    Flux,
    /// Python with the packages that Flux imports.
    Python,
    /// bash, which is `sh` too.
    Shell,
    /// Lua and what Flux's Lua programs import.
    Lua,
    /// The loader and the C library.
    CLibrary,
    /// All other libraries.
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

/// What an entry of the view is made from.
#[derive(Debug)]
pub(super) enum Content {
    /// A file of this system.
    File {
        /// Where it lies.
        lies: PathBuf,
        /// Where it is found among the places that were searched, all links followed.
        found: PathBuf,
        /// Its headers, where it has any.
        elf: Option<Box<Elf>>,
    },
    /// A link to this.
    Link(PathBuf),
}

/// A file or a link of the view.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) part: Part,
    pub(super) content: Content,
}

/// Something that keeps a view from being packed, and what to do about it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) cause: String,
    pub(super) remedy: Cow<'static, str>,
}

impl Fault {
    pub(super) fn new(cause: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { cause: cause.into(), remedy: remedy.into() }
    }
}

/// Files and their bytes.
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
    /// By the path relative to the view.
    pub(super) entries: BTreeMap<PathBuf, Entry>,
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
    /// What was seen and is not taken.
    pub(super) left_out: Amount,
    /// What keeps the view from being packed.
    pub(super) faults: Vec<Fault>,
    /// What is unusual, and may be meant so.
    pub(super) warnings: Vec<String>,
}

impl Contents {
    /// Takes `entry` at `path`, unless there is one already.
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, entry: Entry) {
        self.entries.entry(path.into()).or_insert(entry);
    }

    /// A link at `path`, unless something is there.
    pub(super) fn link(
        &mut self,
        path: impl Into<PathBuf>,
        part: Part,
        target: impl Into<PathBuf>,
    ) {
        self.add(path, Entry { part, content: Content::Link(target.into()) });
    }

    /// Notes what keeps the view from being packed.
    pub(super) fn fault(&mut self, cause: impl Into<String>, remedy: impl Into<Cow<'static, str>>) {
        self.faults.push(Fault::new(cause, remedy));
    }

    /// The headers of all programs and libraries, with the path relative to the view and the path where
    /// each was found.
    pub(super) fn elfs(&self) -> impl Iterator<Item = (&Path, &Path, &Elf)> {
        self.entries.iter().filter_map(|(path, entry)| match &entry.content {
            Content::File { found, elf: Some(elf), .. } => {
                Some((path.as_path(), found.as_path(), elf.as_ref()))
            }
            Content::File { .. } | Content::Link(_) => None,
        })
    }
}
