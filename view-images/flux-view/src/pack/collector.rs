//! Taking files and directories into a view, from Flux's prefix or from the file system around it.

use super::contents::{Content, Contents, Entry, Part};
use crate::elf::{Elf, is_elf};
use crate::places::Places;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where programs are that a distribution installs.
pub(super) const PROGRAMS: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];

/// Collects the contents of a view.
pub(super) struct Collector<'run> {
    /// The file system that is collected from.
    pub(super) places: &'run Places,
    /// Where the view is found at run time.
    pub(super) view: &'run Path,
    /// What was collected so far.
    pub(super) contents: Contents,
}

impl Collector<'_> {
    /// The file at `from`, at `path` of the view.
    pub(super) fn file(&mut self, path: &Path, from: &Path, part: Part) {
        let (Ok(found), Some(lies)) = (self.places.resolve(from), self.places.file(from)) else {
            return;
        };
        match headers(&lies) {
            Ok(elf) => {
                let content = Content::File { lies, found, elf: elf.map(Box::new) };
                self.contents.add(path, Entry { part, content });
            }
            Err(reason) => self.contents.fault(
                format!("{}: {reason}", from.display()),
                "let it be readable and whole, or take it away",
            ),
        }
    }

    /// The directory `from` with all in it but what `left_out` says of paths relative to it, at `path` of
    /// the view.
    pub(super) fn tree(
        &mut self,
        path: &Path,
        from: &Path,
        part: Part,
        left_out: &dyn Fn(&Path) -> bool,
    ) {
        let mut directories = vec![PathBuf::new()];
        while let Some(directory) = directories.pop() {
            for name in self.places.names(&from.join(&directory)) {
                let relative = directory.join(name);
                let source = from.join(&relative);
                if left_out(&relative) {
                    self.leave_out(&source);
                } else if let Some(target) = self.link_that_holds(from, &source) {
                    self.contents.link(path.join(&relative), part, target);
                } else if self.places.file(&source).is_some() {
                    self.file(&path.join(&relative), &source, part);
                } else if self.places.directory(&source).is_none() {
                    let shown = source.display();
                    self.contents.warnings.push(format!("{shown} leads nowhere, and is left out"));
                } else if !self.leads_back(&source) {
                    directories.push(relative);
                }
            }
        }
    }

    /// Takes the files and directories of `from` whose names are wanted, into `path` of the view; says whether
    /// there are any.
    pub(super) fn named(
        &mut self,
        path: &Path,
        from: &Path,
        part: Part,
        is_wanted: impl Fn(&str) -> bool,
        left_out: &dyn Fn(&Path) -> bool,
    ) -> bool {
        let mut names = self.places.names(from);
        names.retain(|name| is_wanted(name));
        for name in &names {
            let (path, from) = (path.join(name), from.join(name));
            if self.places.directory(&from).is_some() {
                self.tree(&path, &from, part, left_out);
            } else {
                self.file(&path, &from, part);
            }
        }
        !names.is_empty()
    }

    /// The target of the link at `source`, if it is one that holds in the view: it leads to something
    /// within `tree`, or within the view.
    fn link_that_holds(&self, tree: &Path, source: &Path) -> Option<PathBuf> {
        let directory = self.places.directory(source.parent()?)?;
        let target = fs::read_link(directory.join(source.file_name()?)).ok()?;
        let found = self.places.resolve(source).ok()?;
        let around = if target.is_absolute() { self.view } else { tree };
        found.starts_with(around).then_some(target)
    }

    /// Whether the directory at `source` is a link to one that it lies in.
    fn leads_back(&self, source: &Path) -> bool {
        self.places.resolve(source).is_ok_and(|found| found != source && source.starts_with(found))
    }

    /// Counts what stays behind.
    fn leave_out(&mut self, source: &Path) {
        let mut sources = vec![source.to_owned()];
        while let Some(source) = sources.pop() {
            if let Some(lies) = self.places.file(&source) {
                self.contents.left_out.add(lies.metadata().map_or(0, |found| found.len()));
            } else if self.places.resolve(&source).is_ok_and(|found| found == source) {
                sources.extend(self.places.names(&source).iter().map(|name| source.join(name)));
            }
        }
    }

    /// The program `name`, of Flux's prefix or of the file system around it.
    pub(super) fn installed(&self, name: &str) -> Option<PathBuf> {
        let directories = PROGRAMS.iter().map(PathBuf::from);
        let directories = std::iter::once(self.view.join("bin")).chain(directories);
        let mut paths = directories.map(|directory| directory.join(name));
        paths.find(|path| self.places.file(path).is_some())
    }
}

/// The headers of the file at `path`, if it has any; or why it cannot be read.
fn headers(path: &Path) -> Result<Option<Elf>, String> {
    let mut start = [0; 4];
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    if file.read_exact(&mut start).is_err() || !is_elf(&start) {
        return Ok(None);
    }
    let data = fs::read(path).map_err(|error| error.to_string())?;
    Elf::read(&data).map(Some).map_err(|error| error.to_string())
}
