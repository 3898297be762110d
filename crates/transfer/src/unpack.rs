//! A stream as files.

use crate::{Copied, ROOT, TransferError};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
#[cfg(unix)]
use std::time::{Duration, SystemTime};
use tar::{Archive, Entry, EntryType, Header};

/// Where a stream goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The new file or directory, or a directory that is there.
    pub path: PathBuf,
    /// What it is called in a directory that is there; without it, what is in the directory of the stream goes into that
    /// directory.
    pub name: Option<String>,
}

impl Destination {
    /// The file or directory that the stream becomes. As `cp` has it, one that is to be in a directory says so by a
    /// slash, or by a directory that is there.
    fn root(&self) -> PathBuf {
        let is_directory =
            self.path.is_dir() || self.path.as_os_str().as_encoded_bytes().ends_with(b"/");
        // Only a name, no path.
        let name = self.name.as_deref().and_then(|name| Path::new(name).file_name());
        match name {
            Some(name) if is_directory => self.path.join(name),
            Some(_) | None => self.path.clone(),
        }
    }
}

/// Writes what is in `stream` to `destination`, with mode and time of change. Nothing is written outside of it, whatever
/// the stream says: neither by `..` nor by a symbolic link that the stream has brought or that was there.
pub fn unpack(stream: impl Read, destination: &Destination) -> Result<Copied, TransferError> {
    let root = destination.root();
    let mut archive = Archive::new(stream);
    let mut copied = Copied::default();
    // The modes and times of directories, which what is written into them would change, or forbid.
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.into_owned();
        let kind = entry.header().entry_type();
        let wanted = matches!(kind, EntryType::Regular | EntryType::Symlink | EntryType::Directory);
        if !wanted {
            // Nothing else is ever packed.
            return Err(TransferError::Kind { path: name });
        }
        let is_new = if copied.entries == 0 {
            begin(&mut entry, &root)?
        } else {
            below(&mut entry, &name, &root)?;
            true
        };
        if kind == EntryType::Directory && is_new {
            let path = root.join(&name);
            allow_writing(&path).map_err(write(&path))?;
            directories.push((path, entry.header().clone()));
        }
        copied.entries += 1;
        copied.bytes += entry.header().size().map_err(broken)?;
    }
    if copied.entries == 0 {
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "it is empty");
        return Err(broken(source));
    }
    // What is below first.
    for (path, header) in directories.into_iter().rev() {
        finish(&path, &header).map_err(write(&path))?;
    }
    Ok(copied)
}

fn broken(source: io::Error) -> TransferError {
    TransferError::Stream { doing: "read", source }
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.to_owned();
    move |source| TransferError::Write { path, source }
}

/// The first entry, which becomes `root`; false where that is a directory that was there, and stays as it is.
fn begin(entry: &mut Entry<'_, impl Read>, root: &Path) -> Result<bool, TransferError> {
    let kind = entry.header().entry_type();
    if kind == EntryType::Directory {
        return match fs::create_dir(root) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && root.is_dir() => {
                Ok(false)
            }
            Err(error) => Err(write(root)(error)),
        };
    }
    if kind != EntryType::Regular {
        return Err(TransferError::Kind { path: root.to_owned() });
    }
    if root.is_dir() {
        let source = io::Error::new(io::ErrorKind::IsADirectory, "a directory is there");
        return Err(write(root)(source));
    }
    // A file that is there is replaced; it may be a link that leads elsewhere.
    entry.unpack(root).map_err(write(root))?;
    Ok(true)
}

/// An entry below the first, which has to be a directory.
fn below(entry: &mut Entry<'_, impl Read>, name: &Path, root: &Path) -> Result<(), TransferError> {
    let outside =
        || TransferError::Outside { entry: name.to_owned(), destination: root.to_owned() };
    let is_below = |part: Component<'_>| matches!(part, Component::CurDir | Component::Normal(_));
    if !name.components().all(is_below) || name == Path::new(ROOT) {
        return Err(outside());
    }
    match entry.unpack_in(root) {
        Ok(true) => Ok(()),
        Ok(false) => Err(outside()),
        // The crate has no kind of error for what it refuses.
        Err(error) if error.to_string().contains("outside of destination") => Err(outside()),
        Err(source) => Err(write(&root.join(name))(source)),
    }
}

/// Lets a directory be written to until it is complete, whatever its mode will be.
#[cfg(unix)]
fn allow_writing(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn allow_writing(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Mode and time of a directory that is complete.
#[cfg(unix)]
fn finish(path: &Path, header: &Header) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if !fs::symlink_metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(header.mtime()?);
    let directory = fs::File::open(path)?;
    directory.set_modified(modified)?;
    directory.set_permissions(fs::Permissions::from_mode(header.mode()? & 0o777))
}

#[cfg(not(unix))]
fn finish(_: &Path, _: &Header) -> io::Result<()> {
    Ok(())
}
