//! Writing the files of a view: programs with their new headers, scripts with their new first lines,
//! everything readable for every user.

use super::collect::Collected;
use super::contents::{Amount, Content, Entry, Fault, Part};
use crate::elf::{Elf, is_of_c_library};
use crate::rewrite::{Change, Script, changed, first_line};
use flux_agent::view::{ViewError, failed};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeMap;
use std::fs::{self, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Writes the files of a view, each with the loader, search path or interpreter that the view has.
#[derive(Debug)]
pub(super) struct ViewWriter<'run> {
    view: &'run Path,
    /// The loader, as a path at run time.
    loader: String,
    /// Where programs search for libraries, as a list of paths at run time.
    search_path: String,
    collected: &'run Collected,
}

/// What was written of a part, or of all.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Files by their parts.
    pub(super) parts: BTreeMap<Part, Amount>,
    /// Bytes that stripping took away.
    pub(super) stripped: u64,
    /// What could not be made as it has to be.
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

/// What became of one file.
enum Outcome {
    Link,
    File { part: Part, bytes: u64, stripped: u64, warning: Option<String> },
    Faulty(Fault),
}

impl<'run> ViewWriter<'run> {
    /// For what was `collected` for `view`.
    pub(super) fn new(collected: &'run Collected, view: &'run Path) -> Self {
        let at_run_time = |path: &PathBuf| view.join(path).display().to_string();
        let directories: Vec<_> = collected.library_directories.iter().map(at_run_time).collect();
        Self {
            view,
            loader: at_run_time(&collected.loader),
            search_path: directories.join(":"),
            collected,
        }
    }

    /// Writes everything below the directory `to`, with several threads.
    pub(super) fn write(&self, to: &Path) -> Result<Written, ViewError> {
        let entries = &self.collected.contents.entries;
        for directory in entries.keys().filter_map(|path| path.parent()) {
            let directory = to.join(directory);
            if !directory.is_dir() {
                fs::create_dir_all(&directory).map_err(failed("create directory", &directory))?;
            }
        }
        let outcomes: Vec<Outcome> = entries
            .par_iter()
            .map(|(path, entry)| self.entry(path, entry, &to.join(path)))
            .collect::<Result<_, _>>()?;
        open_directories(to)?;
        let mut written = Written::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Link => {}
                Outcome::File { part, bytes, stripped, warning } => {
                    written.parts.entry(part).or_default().add(bytes);
                    written.stripped += stripped;
                    written.warnings.extend(warning);
                }
                Outcome::Faulty(fault) => written.faults.push(fault),
            }
        }
        Ok(written)
    }

    fn entry(&self, path: &Path, entry: &Entry, to: &Path) -> Result<Outcome, ViewError> {
        let (lies, elf) = match &entry.content {
            Content::Link(target) => {
                symlink(target, to).map_err(failed("make a link at", to))?;
                return Ok(Outcome::Link);
            }
            Content::File { lies, elf, .. } => (lies, elf),
        };
        let data = fs::read(lies).map_err(failed("read", lies))?;
        let metadata = fs::metadata(lies).map_err(failed("read", lies))?;
        let before = data.len() as u64;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (data, warning) = match elf {
            // The loader and the C library know each other, and are found by everybody.
            Some(elf) if !is_of_c_library(&name) => match self.elf(path, data, elf) {
                Ok(done) => done,
                Err(fault) => return Ok(Outcome::Faulty(fault)),
            },
            None if metadata.permissions().mode() & 0o111 != 0 => self.script(path, data),
            Some(_) | None => (data, None),
        };
        write_file(to, &data, &metadata).map_err(failed("write", to))?;
        let bytes = data.len() as u64;
        let stripped = before.saturating_sub(bytes);
        Ok(Outcome::File { part: entry.part, bytes, stripped, warning })
    }

    /// A program or library that finds loader and libraries in the view. One that could only not be
    /// stripped, or that hides nothing, stays as it is.
    fn elf(
        &self,
        path: &Path,
        data: Vec<u8>,
        elf: &Elf,
    ) -> Result<(Vec<u8>, Option<String>), Fault> {
        let change = Change::of(elf, &self.loader, &self.search_path);
        if change.is_none() {
            return Ok((data, None));
        }
        let error = match changed(&data, elf, &change) {
            Ok(data) => return Ok((data, None)),
            Err(error) => error,
        };
        let unstripped = Change { strip: false, ..change };
        if unstripped.is_none() {
            return Ok((data, Some(format!("{}: not stripped: {error}", path.display()))));
        }
        changed(&data, elf, &unstripped).map(|data| (data, None)).map_err(|error| Fault {
            cause: format!("{}: its loader and search path cannot be set: {error}", path.display()),
            remedy: format!(
                "link it again with GNU ld, a search path (-rpath {}) and no packed relocations, or \
                 leave it out of the prefix",
                self.search_path
            )
            .into(),
        })
    }

    /// A script that is started by what the view has.
    fn script(&self, path: &Path, data: Vec<u8>) -> (Vec<u8>, Option<String>) {
        let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
        let line = String::from_utf8_lossy(&data[..end]);
        match first_line(&line, self.view, |name| self.interpreter(name)) {
            None => (data, None),
            Some(Script::Changed(line)) => ([line.as_bytes(), &data[end..]].concat(), None),
            Some(Script::Foreign(program)) => {
                let (path, program) = (path.display(), program.display());
                (data, Some(format!("{path} is started by {program}, which is not in the view")))
            }
        }
    }

    /// `python3` and `python3.11` are one Python, as `lua5.1` is Lua.
    fn interpreter(&self, name: &str) -> Option<PathBuf> {
        let kind = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
        let program = Path::new("bin").join(name);
        let is_there = self.collected.contents.entries.contains_key(&program);
        let known = self.collected.interpreters.get(kind).cloned();
        known.or_else(|| is_there.then(|| self.view.join(program)))
    }
}

/// Writes a file that every user can read, and start if its owner could, as old as it was: Python compares
/// the times of its modules.
fn write_file(to: &Path, data: &[u8], metadata: &Metadata) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
    file.write_all(data)?;
    let mode = metadata.permissions().mode();
    let started = if mode & 0o111 == 0 { 0 } else { 0o111 };
    file.set_permissions(Permissions::from_mode((mode & 0o7000) | 0o644 | started))?;
    file.set_times(FileTimes::new().set_modified(metadata.modified()?))
}

/// Lets every user enter `directory` and those in it, whatever the umask is.
fn open_directories(directory: &Path) -> Result<(), ViewError> {
    fs::set_permissions(directory, Permissions::from_mode(0o755))
        .map_err(failed("set the mode of", directory))?;
    for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
        let entry = entry.map_err(failed("list", directory))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}
