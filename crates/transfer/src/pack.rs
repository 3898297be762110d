//! Writes files to a stream.

use crate::{Copied, FILE, ROOT, TransferError};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
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
    let builder = ManuallyDrop::new(Builder::new(stream));
    let mut archive = Archive { builder, copied: Copied::default() };
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
    let builder = ManuallyDrop::into_inner(archive.builder);
    let finished = builder.into_inner().and_then(|mut stream| stream.flush());
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

/// The content of a file, of which the header has the size: what is appended meanwhile, e.g. to a log, is not copied.
struct Content {
    file: File,
    left: u64,
    /// Why the file could not be read.
    error: Option<io::Error>,
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buffer[..length]).and_then(|read| match read {
            0 if length > 0 => {
                Err(io::Error::other("it became shorter while it was copied: copy it again"))
            }
            read => Ok(read),
        });
        read.inspect(|read| self.left -= *read as u64).map_err(|error| {
            let kind = error.kind();
            self.error = (kind != io::ErrorKind::Interrupted).then_some(error);
            kind.into()
        })
    }
}

struct Archive<Stream: Write> {
    /// After an error it is not dropped: it would write the end of a stream, as the missing content of the last file.
    builder: ManuallyDrop<Builder<Stream>>,
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
            let mut content = Content { file, left: found.len(), error: None };
            let appended = self.builder.append_data(&mut header, name, &mut content);
            content.error.map_or(Ok(()), |error| Err(read(path)(error)))?;
            appended.map_err(written)?;
            self.copied.bytes += found.len();
        } else {
            return Ok(false);
        }
        self.copied.entries += 1;
        Ok(true)
    }
}
