//! Directories of the image, above all the working directory: they often belong to root.

use crate::accounts::become_user::Target;
use crate::accounts::passwd::Databases;
use crate::execute::run::Files;
use crate::execute::session::Identity;
use crate::plan::facts::databases;
use crate::system::files::open_directory;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Directories of the system (FHS 3.0): who owns one of them, or one below it, decides what root executes and reads.
const SYSTEM: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root",
    "/run", "/sbin", "/sys", "/var",
];
/// The same, but for the directories below [`SOURCES`].
const USR: &str = "/usr";
/// Many images have their application in a directory of this one.
const SOURCES: &str = "/usr/src";
/// Directories of the system that hold directories of applications and users, which they are not themselves.
const SHARED: [&str; 6] = ["/home", "/media", "/mnt", "/opt", "/srv", "/tmp"];

const ENTER: u32 = 0o1;
const WRITE: u32 = 0o3;

/// Gives the broker's user the working directory, as [`adopt`] does. Where that user cannot enter one that stays root's,
/// the result is the user's home, in which everything that follows starts.
pub(super) fn adopt_own(files: &Files, own: &Path) -> Option<PathBuf> {
    if adopt(files, own) {
        return None;
    }
    let Some(Identity { name, home, user: Some(user) }) = &files.session.identity else {
        return None;
    };
    let enters = |path| fs::metadata(path).is_ok_and(|found| allows(&found, user, ENTER));
    if own.ancestors().all(enters) {
        return None;
    }
    let home = files.root.at(home);
    let (own, shown) = (own.display(), home.display());
    files.log.warn(&format!("{name} cannot enter {own}: the command starts in {shown}"));
    Some(home)
}

/// Gives the broker's user the directory `path` itself (nothing in it) when it lies in the image's own file system and is
/// closed to that user. Volumes are never touched, and neither are directories of the system or of another user: for one
/// of those the result is false, and the log has a line.
pub(super) fn adopt(files: &Files, path: &Path) -> bool {
    let Some(Identity { name, user: Some(user), .. }) = &files.session.identity else {
        return true;
    };
    try_adopt(files, path, name, user).unwrap_or_else(|error| {
        let path = path.display();
        let text = format!("could not give {path} to {name}, who cannot write there: {error}");
        files.log.warn(&text);
        true
    })
}

fn try_adopt(files: &Files, path: &Path, name: &str, user: &Target) -> io::Result<bool> {
    let real = fs::canonicalize(path)?;
    let (own, root) = (fs::metadata(&real)?, fs::metadata(files.root.directory())?);
    // The directory `/` is where a container starts that has none.
    let is_root = own.ino() == root.ino();
    if own.dev() != root.dev() || is_root || allows(&own, user, WRITE) {
        return Ok(true);
    }
    let inside = real.strip_prefix(fs::canonicalize(files.root.directory())?).unwrap_or(&real);
    let accounts = databases(&files.root);
    let shown = path.display();
    if let Some(why) = reserved(&Path::new("/").join(inside), user.uid, &accounts) {
        files.log.warn(&format!(
            "{shown} stays closed to {name}: {why}; give {name} a directory of its own, by workingDir or \
             in the image, or mount a volume"
        ));
        return Ok(false);
    }
    let directory = open_directory(&real)?;
    if (directory.metadata()?.dev(), directory.metadata()?.ino()) != (own.dev(), own.ino()) {
        return Err(io::Error::other("another directory has taken its place"));
    }
    fchown(&directory, Some(user.uid), Some(user.gid))?;
    files.log.info(&format!("{shown} now belongs to {name}"));
    Ok(true)
}

/// Why the directory `path`, without links in it, is not to be given to user `uid`, if that is so.
fn reserved(path: &Path, uid: u32, accounts: &Databases) -> Option<String> {
    let in_usr =
        path.starts_with(USR) && (path == Path::new(SOURCES) || !path.starts_with(SOURCES));
    let in_system = SYSTEM.iter().any(|system| path.starts_with(system));
    if in_usr || in_system || SHARED.iter().any(|shared| path == Path::new(shared)) {
        return Some("it is a directory of the system".to_owned());
    }
    // Who owns a directory above a home can put another in its place.
    let concerns = |home: &Path| path.starts_with(home) || home.starts_with(path);
    let mut others = accounts.users().filter(|user| user.uid != uid);
    // Accounts of services often have `/` for their home.
    let owner = others.find(|user| user.home.parent().is_some() && concerns(&user.home));
    owner.map(|user| format!("{} is the home of {}", user.home.display(), user.name))
}

/// Whether the broker's user can make files in the directory `path`. The agent may be root and could, but a file would be
/// of no use to a user who cannot.
pub(super) fn takes_files(files: &Files, path: &Path) -> bool {
    let allowed = |found: Metadata| files.user().is_none_or(|user| allows(&found, user, WRITE));
    fs::metadata(path).is_ok_and(allowed)
}

/// Whether a directory allows `permission` to `user`, by its mode bits alone.
fn allows(directory: &Metadata, user: &Target, permission: u32) -> bool {
    let shift = if directory.uid() == user.uid {
        6
    } else if directory.gid() == user.gid || user.groups.contains(&directory.gid()) {
        3
    } else {
        0
    };
    (directory.mode() >> shift) & permission == permission
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_class_of_mode_bits_that_fits_decides() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o570)).unwrap();
        let found = fs::metadata(directory.path()).unwrap();
        let (uid, gid) = (found.uid(), found.gid());
        let writes = |uid, gid| {
            allows(&found, &Target { uid, gid, groups: vec![gid], capabilities: vec![] }, WRITE)
        };
        assert!(!writes(uid, gid), "owner without write permission");
        assert!(writes(uid + 1, gid), "group");
        assert!(!writes(uid + 1, gid + 1), "others");
    }

    #[test]
    fn directories_of_the_system_and_homes_of_others_stay() {
        let passwd = "root:x:0:0::/root:/bin/sh\ndaemon:x:1:1::/:\nubuntu:x:1000:1000::/home/ubuntu:\n\
                      app:x:1002:1002::/data/app/home:\nflux:x:1001:1001::/scratch/flux:/bin/sh\n";
        let accounts = Databases { passwd: passwd.into(), ..Databases::default() };
        let reserved = |path: &str| reserved(Path::new(path), 1001, &accounts).is_some();
        let system = "/root /root/work /etc /etc/cron.d /usr/local/bin /usr/src /usr/lib /lib64 /var/lib/x /home \
                      /home/ubuntu /home/ubuntu/work /opt /srv /data /data/app";
        let others = "/app /opt/app /scratch /scratch/flux /data/x /home/flux /usr/src/app /srv/www /library /mnt/data";
        for (paths, expected) in [(system, true), (others, false)] {
            for path in paths.split(' ') {
                assert_eq!(reserved(path), expected, "{path}");
            }
        }
    }
}
