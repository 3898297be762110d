//! Packing an installed Flux with all that it needs into a view that runs in every image, also in one with
//! another C library or with none.

mod collect;
mod contents;
mod left_out;
mod python;
mod report;
mod write;

pub(crate) use report::PackReport;

use anyhow::{Error, Result, ensure};
use contents::{Contents, Fault};
use flux_agent::linking::Places;
use flux_agent::system::below;
use flux_agent::view::{ViewError, failed, find};
use flux_contract::Layout;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use write::ViewWriter;

/// What is to be packed, and where to, as arguments of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct PackRequest {
    /// Prefix of the Flux installation, or where it was put instead (DESTDIR)
    #[arg(long, value_name = "DIRECTORY")]
    from: PathBuf,
    /// Root of the image to be made: the view is written below it, at its place at run time
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) to: PathBuf,
    /// Where the shared volume will be mounted; Flux was built for the prefix PATH/view
    #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
    pub(crate) mount_path: PathBuf,
    /// Replace a view that is there
    #[arg(long)]
    force: bool,
    /// Root of the file system that Flux is installed in
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

/// Packs what `request` says, and logs each stage and every fault. The view appears at its place when it is
/// whole.
pub(crate) fn pack(request: &PackRequest, log: fn(&str)) -> Result<PackReport> {
    let view = Layout::new(&request.mount_path).view();
    let to = below(&request.to, &view);
    let from = std::path::absolute(&request.from).map_err(failed("find", &request.from))?;
    let source = find(&request.root, &request.mount_path, Some(&from))?;
    let lies = below(&request.root, &source.view);
    if std::path::absolute(&to).map_err(failed("find", &to))?.starts_with(&lies) {
        return Err(ViewError::IntoItself { source_path: lies, destination: to }.into());
    }
    let places = Places { mounts: vec![(view.clone(), lies)], root: Some(request.root.clone()) };
    let mut contents = Contents { places, view, ..Contents::default() };
    contents.collect(log);
    let is_empty = fs::read_dir(&to).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !request.force {
        let cause = format!("{} is not empty", to.display());
        contents.fault(cause, "give another --to, or --force to replace what is there");
    }
    refuse(&contents.faults, log)?;
    log(&format!("writes {}", to.display()));
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

/// Writes everything beside its place, and puts it there if it is without fault.
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

/// Removes the directory at `path` and all in it; that there is none is no error.
fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
