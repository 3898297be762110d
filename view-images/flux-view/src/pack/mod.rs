//! Packing an installed Flux with all that it needs into a view that runs in every image, also in one with
//! another C library or with none.

mod collect;
mod collector;
mod contents;
mod left_out;
mod python;
mod report;
mod write;

pub(crate) use report::PackReport;

use crate::places::Places;
use collect::Collected;
use collector::Collector;
use contents::Fault;
use flux_agent::system::below;
use flux_agent::view::{ViewError, failed, find};
use flux_contract::Layout;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use write::{ViewWriter, Written};

/// What is to be packed, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackRequest {
    /// The file system that Flux is installed in.
    pub(crate) root: PathBuf,
    /// Flux's prefix there, or where it was put instead (`DESTDIR`).
    pub(crate) from: PathBuf,
    /// The root of the image that is made.
    pub(crate) to: PathBuf,
    /// Where the shared volume will be mounted (`flux.container.mountPath`).
    pub(crate) mount_path: PathBuf,
    /// Whether a view that is there already is replaced.
    pub(crate) force: bool,
}

/// Why nothing was packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// No Flux, or a file that could not be read or written.
    #[error(transparent)]
    View(#[from] ViewError),
    /// All that has to be changed first.
    #[error("nothing was packed; faults: {}", .0.len())]
    Faults(Vec<Fault>),
}

/// Packs what `request` says, and calls `progress` before each stage. The view appears at its place when it is
/// whole.
pub(crate) fn pack(
    request: &PackRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<PackReport, PackError> {
    let view = Layout::new(&request.mount_path).view();
    let to = below(&request.to, &view);
    let from = std::path::absolute(&request.from).map_err(failed("find", &request.from))?;
    let source = find(&request.root, &request.mount_path, Some(&from))?;
    let lies = below(&request.root, &source.view);
    if std::path::absolute(&to).map_err(failed("find", &to))?.starts_with(&lies) {
        return Err(ViewError::IntoItself { source_path: lies, destination: to }.into());
    }
    let places = Places::new(vec![(view.clone(), lies)], Some(request.root.clone()));
    let mut collected = Collector::new(&places, &view).collect(progress);
    refuse_to_replace(request, &to, &mut collected);
    if !collected.contents.faults.is_empty() {
        return Err(PackError::Faults(collected.contents.faults));
    }
    progress(&format!("writes {}", to.display()));
    let written = write(&collected, &view, &to)?;
    if !written.faults.is_empty() {
        return Err(PackError::Faults(written.faults));
    }
    Ok(PackReport::new(to, &collected, written))
}

/// A fault if there is something where the view goes, unless it is to be replaced.
fn refuse_to_replace(request: &PackRequest, to: &Path, collected: &mut Collected) {
    let is_empty = fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !request.force {
        let cause = format!("{} is not empty", to.display());
        collected.contents.fault(cause, "give another --to, or --force to replace what is there");
    }
}

/// Writes everything beside its place, and puts it there if it is without fault.
fn write(collected: &Collected, view: &Path, to: &Path) -> Result<Written, ViewError> {
    let partial = to.with_extension("partial");
    remove_directory(&partial).map_err(failed("remove leftover", &partial))?;
    fs::create_dir_all(&partial).map_err(failed("create directory", &partial))?;
    let written = ViewWriter::new(collected, view).write(&partial);
    let is_good = written.as_ref().is_ok_and(|written| written.faults.is_empty());
    if is_good {
        remove_directory(to).map_err(failed("remove", to))?;
        fs::rename(&partial, to).map_err(failed("put in place", to))?;
    } else {
        remove_directory(&partial).map_err(failed("remove", &partial))?;
    }
    written
}

/// Removes the directory at `path` and all in it; that there is none is no error.
fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
