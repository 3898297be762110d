//! Packs an installed Flux, with everything that it needs, into a view that runs in every image, also in one with
//! another C library or without any.

mod collect;
mod contents;
mod left_out;
mod python;
mod report;
mod write;

pub(crate) use report::PackReport;

use anyhow::{Error, Result, ensure};
use contents::{Contents, Fault};
use flux_agent::linking::Sysroot;
use flux_agent::system::below;
use flux_agent::view::{ViewError, failed, find};
use flux_contract::Layout;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use write::ViewWriter;

#[derive(Debug, clap::Args)]
pub(crate) struct PackRequest {
    /// Prefix of the Flux installation; below DESTDIR if it was staged there (DESTDIR/mnt/flux/view)
    #[arg(long, value_name = "DIRECTORY")]
    from: PathBuf,
    /// Root of the new image: the view is written to its run-time path below it
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) to: PathBuf,
    /// Path at which the shared volume will be mounted; the prefix of Flux is PATH/view
    #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
    pub(crate) mount_path: PathBuf,
    /// Replace an existing view
    #[arg(long)]
    force: bool,
    /// Root of the file system in which Flux is installed
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

/// Packs a view, and logs each stage and every fault. The view appears at its path only when it is complete.
pub(crate) fn pack(request: &PackRequest, log: fn(&str)) -> Result<PackReport> {
    let view = PathBuf::from(Layout::new(request.mount_path.to_string_lossy()).view());
    let to = below(&request.to, &view);
    let from = std::path::absolute(&request.from).map_err(failed("find", &request.from))?;
    let source = find(&request.root, &request.mount_path, Some(&from))?;
    let installed = below(&request.root, &source.view);
    if std::path::absolute(&to).map_err(failed("find", &to))?.starts_with(&installed) {
        return Err(ViewError::IntoItself { source_path: installed, destination: to }.into());
    }
    let sysroot =
        Sysroot { mounts: vec![(view.clone(), installed)], root: Some(request.root.clone()) };
    let mut contents = Contents { sysroot, view, ..Contents::default() };
    contents.collect(log);
    let is_empty = fs::read_dir(&to).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !request.force {
        let cause = format!("{} is not empty", to.display());
        contents.fault(cause, "use another --to, or --force to replace the files there");
    }
    refuse(&contents.faults, log)?;
    log(&format!("writing {}", to.display()));
    write(ViewWriter::new(&contents, &to), &to, log)
}

fn refuse(faults: &[Fault], log: fn(&str)) -> Result<()> {
    for Fault { cause, remedy } in faults {
        log(&format!("fault: {cause}"));
        log(&format!("remedy: {remedy}"));
    }
    ensure!(faults.is_empty(), "nothing was packed; faults: {}", faults.len());
    Ok(())
}

/// Writes the view to a directory beside its path, and renames that if there are no faults.
fn write(mut writer: ViewWriter<'_>, to: &Path, log: fn(&str)) -> Result<PackReport> {
    let partial = to.with_extension("partial");
    remove_directory(&partial).map_err(failed("remove leftover", &partial))?;
    fs::create_dir_all(&partial).map_err(failed("create directory", &partial))?;
    let written = writer.write(&partial).map_err(Error::from);
    if let Err(error) = written.and_then(|()| refuse(&writer.faults, log)) {
        remove_directory(&partial).map_err(failed("remove", &partial))?;
        return Err(error);
    }
    remove_directory(to).map_err(failed("remove", to))?;
    fs::rename(&partial, to).map_err(failed("put in place", to))?;
    Ok(writer.report)
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
