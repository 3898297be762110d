//! Writes files and directories. A reader never sees an incomplete file.

use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink,
};
use std::path::{Path, PathBuf};

/// uid and gid of a new file; `None` for the user of this process.
pub(crate) type Owner = Option<(u32, u32)>;

pub(crate) fn write(path: &Path, content: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
    let write = || replace(path, mode, owner, |file| file.write_all(content)).map(drop);
    with_rights_of_owner(path, write)
}

/// Replaces the file at `path` by one with `content`, which is written under a temporary name and renamed. Returns the open
/// file.
pub(crate) fn replace(
    path: &Path,
    mode: u32,
    owner: Owner,
    content: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let temporary = beside(path);
    remove(&temporary)?;
    let file = create(&temporary, mode, owner, content)?;
    or_remove(&temporary, fs::rename(&temporary, path))?;
    Ok(file)
}

/// Creates a file at `path`, which must not exist, with `content`. Only its owner has rights on it until it is complete; then
/// it gets `mode`, independently of the umask.
pub(crate) fn create(
    path: &Path,
    mode: u32,
    owner: Owner,
    content: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode & 0o700).open(path)?;
    let filled = content(&mut file)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| give(&file, owner));
    or_remove(path, filled)?;
    Ok(file)
}

fn or_remove(path: &Path, done: io::Result<()>) -> io::Result<()> {
    done.inspect_err(|_| {
        // Only the first error is reported.
        let _ = fs::remove_file(path);
    })
}

/// The temporary name for `path`, which no other process uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// The result of `work` at `path`. If the system refuses it to root, it is repeated with the rights of the owner of the
/// directory: root may lack capabilities (`DAC_OVERRIDE`, `FOWNER`), and NFS may ignore them (`root_squash`, exports(5)).
pub(crate) fn with_rights_of_owner<T>(
    path: &Path,
    work: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    let refused = match work() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => error,
        done => return done,
    };
    let directory = |path: &Path| fs::metadata(path).ok().filter(Metadata::is_dir);
    match path.ancestors().find_map(directory) {
        Some(place) if geteuid().is_root() && place.uid() != 0 => {
            with_rights_of((place.uid(), place.gid()), work)
        }
        Some(_) | None => Err(refused),
    }
}

/// The result of `work` with the rights of this user and group on files (setfsuid(2)).
pub(crate) fn with_rights_of<T>((uid, gid): (u32, u32), work: impl FnOnce() -> T) -> T {
    let (group, user) = (setfsgid(Gid::from_raw(gid)), setfsuid(Uid::from_raw(uid)));
    let done = work();
    setfsuid(user);
    setfsgid(group);
    // The change of user hides `/proc/PID/exe`, by which PID 1 starts itself (PR_SET_DUMPABLE(2const)).
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    done
}

/// Makes `path` a link to `target`, and replaces a file of an earlier run.
pub(crate) fn link(path: &Path, target: &Path) -> io::Result<()> {
    let temporary = beside(path);
    remove(&temporary)?;
    symlink(target, &temporary)?;
    fs::rename(&temporary, path)
}

/// Makes the directory `path` and its parents. An existing one gets mode and owner, too. A link in its place is refused, as
/// another user could have made it to lead root elsewhere.
pub(crate) fn make_directory(path: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    let make = || {
        if !path.is_dir() {
            DirBuilder::new().recursive(true).mode(0o755).create(path)?;
        }
        let set = open_directory(path).and_then(|directory| {
            directory.set_permissions(Permissions::from_mode(mode))?;
            give(&directory, owner)
        });
        // A directory of another user, as one of a mounted volume, may be used as it is.
        if owner.is_none() { unless(ErrorKind::PermissionDenied, set) } else { set }
    };
    match (with_rights_of_owner(path, make), owner) {
        (Err(error), Some(owner)) if error.kind() == ErrorKind::PermissionDenied => {
            make_as(owner, path, mode, error)
        }
        (result, _) => result,
    }
}

/// Makes the directory `path` as that user, because root without the capability `CHOWN` cannot change the owner.
fn make_as(owner: (u32, u32), path: &Path, mode: u32, refused: io::Error) -> io::Result<()> {
    if unless(ErrorKind::NotFound, fs::remove_dir(path)).is_err() {
        return Err(refused);
    }
    let parent = open_directory(path.parent().unwrap_or(path))?;
    let before = parent.metadata()?.permissions();
    // If another user takes the name meanwhile, this fails.
    if parent.set_permissions(Permissions::from_mode(0o1777)).is_err() {
        return Err(refused);
    }
    let result = with_rights_of(owner, || {
        DirBuilder::new().mode(mode & 0o700).create(path)?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    });
    parent.set_permissions(before)?;
    result
}

pub(crate) fn is_directory(path: &Path) -> bool {
    with_rights_of_owner(path, || fs::metadata(path)).is_ok_and(|found| found.is_dir())
}

/// Opens the directory `path`, which must not be a link.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Sets the sticky bit of the directory `path`, because Kubernetes makes volumes with mode 0777: users cannot rename or remove
/// the files of others there. A directory of another user stays the same.
pub(crate) fn make_sticky(path: &Path) -> io::Result<()> {
    let directory = open_directory(path)?;
    let mode = directory.metadata()?.permissions().mode() & 0o7777;
    let set = directory.set_permissions(Permissions::from_mode(mode | 0o1000));
    unless(ErrorKind::PermissionDenied, set)
}

/// Opens the regular file at `path`, which another user may have replaced: it does not follow a link, and does not wait for
/// the writer of a pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok(file)
}

/// The content of the file at `path`, opened by [`open_regular`], if it has no more than `limit` bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let length = open_regular(path)?.take(limit + 1).read_to_end(&mut content)?;
    if length as u64 > limit {
        let text = format!("it has more than {limit} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(content)
}

fn give(file: &File, owner: Owner) -> io::Result<()> {
    let found = file.metadata()?;
    let other = owner.filter(|owner| *owner != (found.uid(), found.gid()));
    other.map_or(Ok(()), |(uid, gid)| fchown(file, Some(uid), Some(gid)))
}

/// Removes the file at `path`, if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    with_rights_of_owner(path, || unless(ErrorKind::NotFound, fs::remove_file(path)))
}

/// Removes the directory at `path` with its contents, if it exists.
pub(crate) fn remove_directory(path: &Path) -> io::Result<()> {
    with_rights_of_owner(path, || unless(ErrorKind::NotFound, fs::remove_dir_all(path)))
}

/// Ignores an error of kind `accepted`.
fn unless(accepted: ErrorKind, done: io::Result<()>) -> io::Result<()> {
    done.or_else(|error| if error.kind() == accepted { Ok(()) } else { Err(error) })
}

/// Whether `path` is an executable file, after all links.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_written_file_has_its_mode_and_leaves_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        // Files of an earlier run are replaced, and a link is not followed.
        fs::write(beside(&path), "half").unwrap();
        write(&path, b"one", 0o644, None).unwrap();
        fs::write(&other, "other").unwrap();
        symlink(&other, beside(&path)).unwrap();
        write(&path, b"two", 0o600, None).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        assert_eq!(fs::read(&other).unwrap(), b"other");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_directory_gets_its_mode_and_links_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        for of_target in [0o700, 0o755] {
            make_directory(&target, of_target, None).unwrap();
            assert_eq!(mode(&target), of_target, "also when it exists");
        }
        symlink(&target, &link).unwrap();
        assert!(make_directory(&link, 0o700, None).is_err());
        assert_eq!(mode(&target), 0o755);
    }

    #[test]
    fn a_sticky_directory_keeps_the_mode_that_it_has() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o2777)).unwrap();
        make_sticky(directory.path()).unwrap();
        assert_eq!(mode(directory.path()), 0o3777);
    }

    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let refused = |what: &str| {
            let error = read_bounded(&path, 4).expect_err(what);
            fs::remove_file(&path).unwrap();
            error.to_string()
        };
        fs::write(&path, "four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), b"four");
        fs::write(&path, "fives").unwrap();
        assert_eq!(refused("a large file"), "it has more than 4 bytes");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(refused("a pipe without a writer"), "it is no regular file");
        symlink("/dev/zero", &path).unwrap();
        assert!(refused("a link").contains("symbolic link"));
        symlink(directory.path().join("other"), &path).unwrap();
        fs::write(directory.path().join("other"), "").unwrap();
        refused("a link to a regular file");
        assert!(read_bounded(Path::new("/dev/zero"), 4).is_err(), "a device");
    }
}
