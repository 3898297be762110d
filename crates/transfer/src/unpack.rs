//! Writes the files of a stream.

use crate::{Copied, ROOT, TransferError};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
#[cfg(unix)]
use std::time::{Duration, SystemTime};
use tar::{Archive, Entry, EntryType, Header};

/// The destination of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// An existing directory, or the path of the new file or directory.
    pub path: PathBuf,
    /// The name of the new file or directory in an existing directory. Without it, the contents of the stream's directory
    /// go into the existing directory.
    pub name: Option<String>,
}

impl Destination {
    /// The path of the new file or directory. As for `cp`, a path with a final slash, or of an existing directory, is the
    /// directory that it goes into.
    fn root(&self) -> PathBuf {
        let is_directory =
            self.path.is_dir() || self.path.as_os_str().as_encoded_bytes().ends_with(b"/");
        // The sender may not choose a path, only a name.
        let name = self.name.as_deref().and_then(|name| Path::new(name).file_name());
        match name {
            Some(name) if is_directory => self.path.join(name),
            Some(_) | None => self.path.clone(),
        }
    }
}

/// Writes the files of `stream` to `destination`, with their modes and times. Nothing is written outside the destination,
/// neither through `..` nor through symbolic links, whether they are in the stream or existed before.
pub fn unpack(stream: impl Read, destination: &Destination) -> Result<Copied, TransferError> {
    let root = destination.root();
    let mut archive = Archive::new(stream);
    let mut copied = Copied::default();
    // Modes and times of directories are set last: writing into a directory changes its time and may need another mode.
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.into_owned();
        let kind = entry.header().entry_type();
        let is_packed =
            matches!(kind, EntryType::Regular | EntryType::Symlink | EntryType::Directory);
        if !is_packed {
            // `pack` writes no other kinds.
            return Err(TransferError::Kind { path: name });
        }
        let is_new = if copied.entries == 0 {
            unpack_root(&mut entry, &root)?
        } else {
            unpack_below(&mut entry, &name, &root)?;
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
        let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the stream is empty");
        return Err(broken(source));
    }
    // Directories below others come first.
    for (path, header) in directories.into_iter().rev() {
        finish(&path, &header).map_err(write(&path))?;
    }
    Ok(copied)
}

fn broken(source: io::Error) -> TransferError {
    TransferError::Stream { operation: "read", source }
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.to_owned();
    move |source| TransferError::Write { path, source }
}

/// Writes the first entry to `root`. Returns false for a directory that existed, which keeps its mode and time.
fn unpack_root(entry: &mut Entry<'_, impl Read>, root: &Path) -> Result<bool, TransferError> {
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
        let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a directory");
        return Err(write(root)(source));
    }
    // An existing file or link is replaced, once the new file is complete. A link is not followed.
    let beside = root.with_file_name(format!(".flux-transfer-{}", std::process::id()));
    let unpacked = entry.unpack(&beside).and_then(|_| fs::rename(&beside, root));
    unpacked.map_err(|error| {
        let _ = fs::remove_file(&beside);
        write(root)(error)
    })?;
    Ok(true)
}

/// Writes an entry below the first one, which has to be a directory.
fn unpack_below(
    entry: &mut Entry<'_, impl Read>,
    name: &Path,
    root: &Path,
) -> Result<(), TransferError> {
    let outside =
        || TransferError::Outside { entry: name.to_owned(), destination: root.to_owned() };
    let is_below = |part: Component<'_>| matches!(part, Component::CurDir | Component::Normal(_));
    let path = root.join(name);
    let is_inside = name.components().all(is_below) && name != Path::new(ROOT);
    if !is_inside || leads_outside(&path, root) {
        return Err(outside());
    }
    // The tar crate checks the path, too.
    if entry.unpack_in(root).map_err(write(&path))? { Ok(()) } else { Err(outside()) }
}

/// Whether a symbolic link between `root` and `path` leads out of `root`.
fn leads_outside(path: &Path, root: &Path) -> bool {
    let Ok(root) = root.canonicalize() else { return false };
    let parent = path.ancestors().skip(1).find_map(|parent| parent.canonicalize().ok());
    parent.is_some_and(|parent| !parent.starts_with(root))
}

/// Makes a directory writable until its contents are complete.
#[cfg(unix)]
fn allow_writing(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn allow_writing(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Sets mode and time of a complete directory.
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
