//! Reading the files of the user database, and adding lines to them.

use crate::accounts::error::AccountError;
use crate::accounts::passwd::Databases;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Reads the user database below `root`.
pub(super) fn read(root: &Path) -> Result<Databases, AccountError> {
    let text = |name| {
        let path = path(root, name);
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(AccountError::Read { path, cause }),
        }
    };
    Ok(Databases {
        passwd: text("passwd")?.unwrap_or_default(),
        group: text("group")?.unwrap_or_default(),
        // Where it is closed to us it is left alone: nothing in it is needed to find a user.
        shadow: text("shadow").unwrap_or_default(),
    })
}

/// Appends to the files below `root` what `after` has more than `before`; to passwd last, so that a user
/// that can be found is complete.
pub(super) fn append(
    root: &Path,
    before: &Databases,
    after: &Databases,
    user: &str,
) -> Result<(), AccountError> {
    let [old_shadow, new_shadow] =
        [before, after].map(|databases| databases.shadow.as_deref().unwrap_or_default());
    for (name, old, new) in [
        ("group", before.group.as_slice(), after.group.as_slice()),
        ("shadow", old_shadow, new_shadow),
        ("passwd", before.passwd.as_slice(), after.passwd.as_slice()),
    ] {
        let added = new.strip_prefix(old).unwrap_or_default();
        let path = path(root, name);
        append_to(&path, added).map_err(|cause| {
            let name = user.to_owned();
            AccountError::Write { name, path, cause }
        })?;
    }
    Ok(())
}

fn path(root: &Path, name: &str) -> PathBuf {
    root.join("etc").join(name)
}

/// Appends `text` to the file at `path`, which is made if it is missing: readable for everybody, whatever the
/// umask is. The file itself stays: it may be a mount, which cannot be replaced.
fn append_to(path: &Path, text: &[u8]) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut file = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            let file = OpenOptions::new().append(true).create_new(true).open(path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file
        }
        opened => opened?,
    };
    file.write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn lines_are_added_to_the_file_itself_and_only_where_there_are_more() {
        let root = tempfile::tempdir().unwrap();
        let [passwd, group] = ["passwd", "group"].map(|name| path(root.path(), name));
        fs::create_dir(passwd.parent().unwrap()).unwrap();
        fs::write(&passwd, "root:x:0:0::/root:\n").unwrap();
        let inode = fs::metadata(&passwd).unwrap().ino();
        let before = read(root.path()).unwrap();
        let mut after = before.clone();
        after.passwd.extend(b"flux:*:1:1::/:\n");
        append(root.path(), &before, &after, "flux").unwrap();
        assert_eq!(fs::metadata(&passwd).unwrap().ino(), inode);
        assert_eq!(read(root.path()).unwrap(), after);
        assert!(!group.exists());
    }
}
