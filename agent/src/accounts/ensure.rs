//! The account that the broker runs as, in the image's own /etc.

use crate::accounts::passwd::{Databases, FIRST_FREE, LAST_FREE, NewUser, fits_field};
use crate::failure::{Failure, Result};
use crate::system::files;
use crate::system::root::below;
use flux_contract::Exit;
use flux_server::users::User;
use std::fmt::Display;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// The home directory. It exists, unless a note has the reason.
    pub home: PathBuf,
    /// The primary group, then the supplementary ones.
    pub groups: Vec<u32>,
    /// Notes for people: the requested number belongs to another user, the home could not be made, or no entry.
    pub notes: Vec<String>,
}

fn refused(why: impl Display) -> Failure {
    Failure::new(Exit::Prepare, format!("prepare the account that Flux runs as: {why}"))
}

/// The account `name` below `root`, created with `uid` and `home` if there is none. If another account has `uid`, the new one
/// gets the next free number, and a note has the reason: many images have a user 1000 of their own. With a read-only root
/// file system there is a uid but no name for it, and `home_without_entry`. Flux itself runs so.
pub(crate) fn ensure_user(
    root: &Path,
    name: &str,
    uid: u32,
    home: &Path,
    home_without_entry: &Path,
) -> Result<Account> {
    for text in [name, &home.to_string_lossy()] {
        if text.is_empty() || !fits_field(text) {
            return Err(refused(format!(
                "user {text:?} cannot be added: ':' and line breaks do not fit /etc/passwd"
            )));
        }
    }
    let databases = read(root)?;
    if let Some(user) = databases.find_user(name) {
        return Ok(account(root, &databases, user, home, Vec::new()));
    }
    let NewUser { user, added } = databases.new_user(name, uid, home).ok_or_else(|| {
        refused(format!(
            "could not add user {name:?}: no user id from {FIRST_FREE} to {LAST_FREE} is free"
        ))
    })?;
    for (file, text) in added {
        let path = root.join("etc").join(file);
        if let Err(error) = append_to(&path, &text) {
            let note = format!(
                "could not add user {name:?} to {}; add the user to the image, make the file writable, or set commands.runFluxAsRoot: {error}; running Flux as uid {uid} without an entry in /etc/passwd",
                path.display()
            );
            let (name, home) = (name.to_owned(), home_without_entry.to_owned());
            return Ok(Account { name, uid, gid: uid, home, groups: vec![uid], notes: vec![note] });
        }
    }
    let mut notes = Vec::new();
    if user.uid != uid {
        let owner = databases.find_uid(uid).map(|owner| owner.name).unwrap_or_default();
        notes.push(format!(
            "uid {uid} belongs to user {owner:?} of the image: user {name:?} was made with uid {}; set fluxUser to choose another name or uid",
            user.uid
        ));
    }
    Ok(account(root, &databases, user, home, notes))
}

fn account(
    root: &Path,
    databases: &Databases,
    user: User,
    home: &Path,
    mut notes: Vec<String>,
) -> Account {
    let groups = databases.groups_of(&user);
    let home = usable_home(root, &user, home, &mut notes);
    let User { name, uid, gid, .. } = user;
    Account { name, uid, gid, home, groups, notes }
}

fn read(root: &Path) -> Result<Databases> {
    let text = |name| {
        let path = root.join("etc").join(name);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            read => {
                read.map_err(|error| refused(format!("could not read {}: {error}", path.display())))
            }
        }
    };
    Ok(Databases { passwd: text("passwd")?, group: text("group")? })
}

/// Appends `text` to the file at `path`, which is created if it is missing. The file cannot be replaced if it is a mount.
fn append_to(path: &Path, text: &str) -> io::Result<()> {
    let mut file = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            let file = OpenOptions::new().append(true).create_new(true).open(path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            file
        }
        opened => opened?,
    };
    file.write_all(text.as_bytes())
}

/// The account's home directory, created if it is missing. If that fails, `wanted`; if that fails, too, the account's own
/// without creating it.
fn usable_home(root: &Path, user: &User, wanted: &Path, notes: &mut Vec<String>) -> PathBuf {
    let own = Some(user.home.as_path()).filter(|home| home.is_absolute() && *home != wanted);
    for home in own.into_iter().chain([wanted]) {
        match make_home(&below(root, home), user) {
            Ok(()) => return home.to_owned(),
            Err(cause) => notes.push(format!(
                "home directory {} of user {:?} could not be made: {cause}",
                home.display(),
                user.name
            )),
        }
    }
    user.home.clone()
}

fn make_home(home: &Path, user: &User) -> io::Result<()> {
    if files::is_directory(home) {
        return Ok(());
    }
    files::make_directory(home, 0o700, Some((user.uid, user.gid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    const HOME: &str = "/home/flux";

    fn flux_user(root: &tempfile::TempDir) -> Account {
        ensure_user(root.path(), "flux", 1000, Path::new(HOME), Path::new("/none")).unwrap()
    }

    fn image(passwd: &str, group: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        fs::write(root.path().join("etc/group"), group).unwrap();
        root
    }

    fn content(root: &Path, file: &str) -> String {
        fs::read_to_string(root.join("etc").join(file)).unwrap()
    }

    #[test]
    fn an_existing_account_stays_the_same() {
        let root =
            image("flux:x:2000:2000::/srv/flux:/bin/sh\n", "wheel:x:10:root,flux\nadm:x:4:root\n");
        fs::create_dir_all(root.path().join("srv/flux")).unwrap();
        let account = flux_user(&root);
        assert_eq!((account.uid, account.gid), (2000, 2000));
        assert_eq!(account.home, Path::new("/srv/flux"));
        assert_eq!(account.groups, [2000, 10]);
        assert!(account.notes.is_empty(), "{:?}", account.notes);
        assert_eq!(content(root.path(), "passwd"), "flux:x:2000:2000::/srv/flux:/bin/sh\n");
    }

    #[test]
    fn a_missing_account_is_created_once_with_its_home() {
        let root = image("root:x:0:0::/root:/bin/sh", "root:x:0:\n");
        if !nix::unistd::getuid().is_root() {
            return; // Only root may give the home directory to the new user.
        }
        fs::set_permissions(root.path().join("etc/passwd"), Permissions::from_mode(0o664)).unwrap();
        let inode = fs::metadata(root.path().join("etc/passwd")).unwrap().ino();
        let account = flux_user(&root);
        assert_eq!((account.uid, account.gid), (1000, 1000));
        let home = fs::metadata(root.path().join("home/flux")).unwrap();
        assert_eq!((home.uid(), home.gid(), home.mode() & 0o777), (1000, 1000, 0o700));
        let passwd = fs::metadata(root.path().join("etc/passwd")).unwrap();
        assert_eq!((passwd.mode() & 0o777, passwd.ino()), (0o664, inode), "the file itself stays");
        let added = "\nflux:*:1000:1000::/home/flux:/bin/sh\n";
        assert!(content(root.path(), "passwd").ends_with(added));

        let again = flux_user(&root);
        assert_eq!(again, account);
        assert_eq!(content(root.path(), "passwd").lines().count(), 2);
    }

    #[test]
    fn a_taken_number_is_noted_with_its_owner() {
        let root = image(
            "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n",
            "ubuntu:x:1000:\nstaff:x:1001:\n",
        );
        let account = flux_user(&root);
        assert_eq!((account.uid, account.gid), (1002, 1002));
        assert!(account.notes[0].contains("\"ubuntu\""), "{:?}", account.notes);
        assert!(account.notes[0].contains("fluxUser"), "{:?}", account.notes);
    }

    #[test]
    fn an_image_without_a_user_database_gets_one() {
        let root = tempfile::tempdir().unwrap();
        flux_user(&root);
        assert_eq!(content(root.path(), "group"), "flux:x:1000:\n");
    }

    #[test]
    fn a_home_that_cannot_be_made_is_noted() {
        // Only root may give files to others.
        let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
        let root = image(&format!("flux:x:{uid}:{gid}::/blocked/home:/bin/sh\n"), "");
        fs::write(root.path().join("blocked"), "a file").unwrap();
        let wanted = Path::new("/mnt/home");
        let account = ensure_user(root.path(), "flux", 1000, wanted, wanted).unwrap();
        assert_eq!(account.home, wanted);
        assert!(root.path().join("mnt/home").is_dir());
        assert!(account.notes[0].contains("/blocked/home"), "{:?}", account.notes);
    }

    #[test]
    fn names_that_would_break_passwd_are_refused() {
        let root = image("", "");
        for name in ["", "a:b", "a\nroot2:x:0:0::/:"] {
            let home = Path::new(HOME);
            let refused = ensure_user(root.path(), name, 1000, home, home).unwrap_err();
            assert!(refused.to_string().contains("do not fit /etc/passwd"), "{name:?}");
        }
        assert_eq!(content(root.path(), "passwd"), "");
    }
}
