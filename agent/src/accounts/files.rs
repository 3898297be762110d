//! Reading, locking and replacing the files of the user database.

use crate::accounts::error::{AccountError, LOCK_DEADLINE};
use crate::accounts::passwd::Databases;
use crate::system::files::{self, Attributes};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

/// The files of the user database.
pub(super) struct Files {
    passwd: PathBuf,
    group: PathBuf,
    shadow: PathBuf,
    lock: PathBuf,
}

impl Files {
    pub(super) fn below(root: &Path) -> Self {
        let etc = root.join("etc");
        Self {
            passwd: etc.join("passwd"),
            group: etc.join("group"),
            shadow: etc.join("shadow"),
            lock: etc.join(".pwd.lock"),
        }
    }

    pub(super) fn read(&self) -> Result<Databases, AccountError> {
        Ok(Databases {
            passwd: read(&self.passwd)?.unwrap_or_default(),
            group: read(&self.group)?.unwrap_or_default(),
            // Where it is closed to us it is left alone: nothing in it is needed to find a user.
            shadow: read(&self.shadow).unwrap_or_default(),
        })
    }

    /// Takes the lock of lckpwdf(3), which useradd(8) and its like honour; it is free again when the
    /// file is dropped. A directory in which the lock file cannot be made is left to the writes to
    /// complain about.
    pub(super) fn lock(&self) -> Result<Option<File>, AccountError> {
        let path = &self.lock;
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        let Ok(file) = opened else { return Ok(None) };
        let (sender, receiver) = mpsc::channel();
        // fcntl(2) has no deadline, and its locks belong to the process: a thread may wait for one.
        thread::spawn(move || {
            let taken = fcntl(&file, FcntlArg::F_SETLKW(&whole_file_lock())).map(|_| file);
            // Nobody listens any more when the deadline has passed; the lock goes with the file.
            let _ = sender.send(taken);
        });
        match receiver.recv_timeout(LOCK_DEADLINE) {
            Ok(Ok(file)) => Ok(Some(file)),
            // A file system without locks has no other program that uses them.
            Ok(Err(_)) => Ok(None),
            Err(_) => Err(AccountError::Locked { path: path.clone() }),
        }
    }

    /// Writes what changed; the passwd text last, so that a user that can be found is complete.
    pub(super) fn write(
        &self,
        before: &Databases,
        after: &Databases,
        name: &str,
    ) -> Result<(), AccountError> {
        let (old_shadow, new_shadow) = (before.shadow.as_deref(), after.shadow.as_deref());
        let texts = [
            (&self.group, before.group.as_slice(), after.group.as_slice(), 0o644),
            (&self.shadow, old_shadow.unwrap_or_default(), new_shadow.unwrap_or_default(), 0o640),
            (&self.passwd, before.passwd.as_slice(), after.passwd.as_slice(), 0o644),
        ];
        for (path, old, new, mode) in texts {
            if old != new {
                write(path, new, mode).map_err(|cause| {
                    let (name, path) = (name.to_owned(), path.clone());
                    AccountError::Write { name, path, cause }
                })?;
            }
        }
        Ok(())
    }
}

/// The content of `path`; `None` when it is not there, as in an image without a user database.
fn read(path: &Path) -> Result<Option<Vec<u8>>, AccountError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(AccountError::Read { path: path.to_owned(), cause }),
    }
}

/// Replaces the content of `path` in one step, or in place where that cannot be done: a file that
/// is a bind mount cannot be renamed over (EBUSY), and the directory of one that is mounted
/// writable may itself be read-only.
fn write(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    match replace(path, text, mode) {
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::ResourceBusy
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::PermissionDenied
            ) =>
        {
            overwrite(path, text)
        }
        result => result,
    }
}

/// The new file has the mode and owner of the one before, or `mode` if there is none.
fn replace(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let existing = fs::metadata(path).ok();
    let attributes = Attributes {
        mode: existing.as_ref().map_or(mode, |existing| existing.mode() & 0o7777),
        owner: existing.map(|existing| (existing.uid(), existing.gid())),
        durable: true,
    };
    files::replace(path, attributes, |file| file.write_all(text)).map(drop)
}

/// Writes `text` over the content of `path`. Texts only grow, so at no moment is there less than
/// before.
fn overwrite(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

#[expect(clippy::cast_possible_truncation, reason = "one-digit constants in a field of 16 bits")]
const fn whole_file_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_in_place_keeps_the_file_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("passwd");
        fs::write(&path, "root:x:0:0::/root:\n").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        overwrite(&path, b"root:x:0:0::/root:\nflux:*:1:1::/:\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), before);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_lock_that_another_open_file_description_holds_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::below(directory.path());
        fs::create_dir(directory.path().join("etc")).unwrap();
        let holder = OpenOptions::new().write(true).create_new(true).open(&files.lock).unwrap();
        fcntl(&holder, FcntlArg::F_OFD_SETLKW(&whole_file_lock())).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| sender.send(files.lock().unwrap().is_some()).unwrap());
            let patience = std::time::Duration::from_millis(100);
            assert!(receiver.recv_timeout(patience).is_err(), "it is held");
            drop(holder);
            assert!(receiver.recv().unwrap());
        });
    }
}
