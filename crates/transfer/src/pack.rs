//! Writes files to a stream.

use crate::{Copied, FILE, ROOT, TransferError};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header, HeaderMode};
use walkdir::WalkDir;

/// Writes `path` and everything below it to `stream`. Symbolic links stay links, except for `path` itself, which is
/// followed. Sockets, devices and other special files are passed to `skipped` instead.
pub fn pack(
    path: &Path,
    stream: impl Write,
    mut skipped: impl FnMut(&Path),
) -> Result<Copied, TransferError> {
    let root = fs::canonicalize(path).map_err(read(path))?;
    let mut archive = Archive { builder: Builder::new(stream), copied: Copied::default() };
    let found = fs::metadata(&root).map_err(read(path))?;
    if found.is_file() {
        archive.append(&root, Path::new(FILE), &found)?;
    } else if found.is_dir() {
        for entry in WalkDir::new(&root).sort_by_file_name() {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(&root).to_owned();
                TransferError::Read { path, source: error.into() }
            })?;
            let below = entry.path().strip_prefix(&root).unwrap_or_else(|_| entry.path());
            let name = Path::new(ROOT).join(below);
            let found = entry.metadata().map_err(|error| TransferError::Read {
                path: entry.path().to_owned(),
                source: error.into(),
            })?;
            if !archive.append(entry.path(), &name, &found)? {
                skipped(entry.path());
            }
        }
    } else {
        return Err(TransferError::Kind { path: path.to_owned() });
    }
    let finished = archive.builder.into_inner().and_then(|mut stream| stream.flush());
    finished.map_err(written)?;
    Ok(archive.copied)
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path: PathBuf = path.to_owned();
    move |source| TransferError::Read { path, source }
}

fn written(source: io::Error) -> TransferError {
    TransferError::Stream { operation: "write", source }
}

struct Archive<Stream: Write> {
    builder: Builder<Stream>,
    copied: Copied,
}

impl<Stream: Write> Archive<Stream> {
    /// Appends `path` as `name`; returns false for special files, which are skipped.
    fn append(
        &mut self,
        path: &Path,
        name: &Path,
        found: &Metadata,
    ) -> Result<bool, TransferError> {
        let mut header = Header::new_gnu();
        header.set_metadata_in_mode(found, HeaderMode::Complete);
        // Ids of users differ between machines.
        header.set_uid(0);
        header.set_gid(0);
        let kind = found.file_type();
        if kind.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            let target = fs::read_link(path).map_err(read(path))?;
            self.builder.append_link(&mut header, name, target).map_err(written)?;
        } else if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            self.builder.append_data(&mut header, name, io::empty()).map_err(written)?;
        } else if kind.is_file() {
            let file = File::open(path).map_err(read(path))?;
            header.set_entry_type(EntryType::Regular);
            header.set_size(found.len());
            // A file that changes its size meanwhile, e.g. a log, keeps the size in the header.
            let content = file.chain(io::repeat(0)).take(found.len());
            self.builder.append_data(&mut header, name, content).map_err(written)?;
            self.copied.bytes += found.len();
        } else {
            return Ok(false);
        }
        self.copied.entries += 1;
        Ok(true)
    }
}
