//! Writes the files of a view: programs with new headers, scripts with new first lines, everything readable for every
//! user.

use super::contents::{Content, Contents, Entry, Fault};
use super::report::PackReport;
use crate::rewrite::{Change, changed, first_line};
use flux_agent::linking::{Elf, is_of_c_library};
use flux_agent::view::{ViewError, failed};
use std::fs::{self, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Writes the files of a view, each with the loader, search path or interpreter that the view has.
pub(super) struct ViewWriter<'run> {
    loader: String,
    search_path: String,
    contents: &'run Contents,
    pub(super) report: PackReport,
    pub(super) faults: Vec<Fault>,
}

impl<'run> ViewWriter<'run> {
    pub(super) fn new(contents: &'run Contents, to: &Path) -> Self {
        let at_run_time = |path: &PathBuf| contents.view.join(path).display().to_string();
        let directories: Vec<_> = contents.library_directories.iter().map(at_run_time).collect();
        Self {
            loader: at_run_time(&contents.loader),
            search_path: directories.join(":"),
            contents,
            report: PackReport::new(to.to_owned(), contents),
            faults: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, to: &Path) -> Result<(), ViewError> {
        for (path, entry) in &self.contents.entries {
            let directory = to.join(path.parent().unwrap_or(path));
            fs::create_dir_all(&directory).map_err(failed("create directory", &directory))?;
            self.entry(path, entry, &to.join(path))?;
        }
        open_directories(to)
    }

    fn entry(&mut self, path: &Path, entry: &Entry, to: &Path) -> Result<(), ViewError> {
        let (source, elf) = match &entry.content {
            Content::Link(target) => {
                return symlink(target, to).map_err(failed("make a link at", to));
            }
            Content::File { source, elf, .. } => (source, elf),
        };
        let data = fs::read(source).map_err(failed("read", source))?;
        let metadata = fs::metadata(source).map_err(failed("read", source))?;
        let before = data.len() as u64;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut data = match elf {
            // The loader and the C library find each other, and need no search path.
            Some(elf) if !is_of_c_library(&name) => self.elf(path, data, elf),
            None if metadata.permissions().mode() & 0o111 != 0 => self.script(path, data),
            Some(_) | None => data,
        };
        data.extend(self.contents.additions.get(path).map(String::as_bytes).unwrap_or_default());
        write_file(to, &data, &metadata).map_err(failed("write", to))?;
        let bytes = data.len() as u64;
        self.report.add(entry.part, bytes);
        self.report.stripped += before.saturating_sub(bytes);
        Ok(())
    }

    /// Changes a program or library so that it finds loader and libraries in the view. If only stripping fails, the file
    /// stays the same.
    fn elf(&mut self, path: &Path, data: Vec<u8>, elf: &Elf) -> Vec<u8> {
        let needed = Change::of(elf, &self.loader, &self.search_path);
        // The programs of an image, which load these modules, have no search path for the view.
        let is_for_images =
            self.contents.extensions.as_ref().is_some_and(|directory| path.starts_with(directory));
        let path_for_images = is_for_images.then(|| self.search_path.clone());
        let search_path = needed.search_path.clone().or(path_for_images);
        let change = Change { search_path, ..needed.clone() };
        let path = path.display();
        if change.is_none() {
            return data;
        }
        let error = match changed(&data, elf, &change) {
            Ok(data) => return data,
            Err(error) => error,
        };
        let unstripped = Change { strip: false, ..needed };
        if unstripped.is_none() {
            self.report.warnings.push(format!("{path} was not stripped: {error}"));
            return data;
        }
        changed(&data, elf, &unstripped).unwrap_or_else(|error| {
            let cause = format!("{path}: cannot set its loader and search path: {error}");
            let remedy = format!(
                "link it again with GNU ld, a search path (-rpath {}) and no packed relocations, or \
                 leave it out of the prefix",
                self.search_path
            );
            self.faults.push(Fault::new(cause, remedy));
            data
        })
    }

    /// Changes a script so that an interpreter of the view starts it.
    fn script(&mut self, path: &Path, data: Vec<u8>) -> Vec<u8> {
        let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
        let line = String::from_utf8_lossy(&data[..end]);
        match first_line(&line, &self.contents.view, |name| self.interpreter(name)) {
            Ok(None) => data,
            Ok(Some(line)) => [line.as_bytes(), &data[end..]].concat(),
            Err(program) => {
                let (path, program) = (path.display(), program.display());
                let warning = format!("{path} is started by {program}, which is not in the view");
                self.report.warnings.push(warning);
                data
            }
        }
    }

    /// The path of an interpreter in the view. A version in its name is ignored: `python3.11` is Python.
    fn interpreter(&self, name: &str) -> Option<PathBuf> {
        let kind =
            name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        let program = Path::new("bin").join(name);
        let is_there = self.contents.entries.contains_key(&program);
        let named = self.contents.interpreters.get(kind).cloned();
        named.or_else(|| is_there.then(|| self.contents.view.join(program)))
    }
}

/// Writes a file that every user can read and, if its owner could execute it, execute. It keeps its time, as Python
/// compares the times of its modules.
fn write_file(to: &Path, data: &[u8], metadata: &Metadata) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
    file.write_all(data)?;
    let mode = metadata.permissions().mode();
    let started = if mode & 0o111 == 0 { 0 } else { 0o111 };
    file.set_permissions(Permissions::from_mode((mode & 0o7000) | 0o644 | started))?;
    file.set_times(FileTimes::new().set_modified(metadata.modified()?))
}

/// Lets every user enter `directory` and all directories in it, whatever the umask is.
fn open_directories(directory: &Path) -> Result<(), ViewError> {
    for entry in WalkDir::new(directory) {
        let entry = entry.map_err(|error| failed("list", directory)(error.into()))?;
        if entry.file_type().is_dir() {
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(entry.path(), mode)
                .map_err(failed("set the mode of", entry.path()))?;
        }
    }
    Ok(())
}
