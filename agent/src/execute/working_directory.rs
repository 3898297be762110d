//! Directories of the image, above all the working directory: they often belong to root.

use crate::execute::context::Context;
use crate::execute::session::Identity;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// Gives the broker's user the directory `path` itself (nothing in it) when it lies in the
/// image's own file system and is closed to that user. Volumes are never touched, `/` neither.
pub(super) fn adopt(context: &Context, path: &Path) {
    let Some(identity) = context.session.identity.as_ref().filter(|identity| identity.switch)
    else {
        return;
    };
    let looked = fs::metadata(path).and_then(|own| {
        let root = fs::metadata(context.root.directory())?;
        Ok((own, root))
    });
    match looked {
        Ok((own, root)) if is_for_us(path, &own, &root) && !may_write(&own, identity) => {
            let adopted = chown(path, Some(identity.uid), Some(identity.gid));
            let path = path.display();
            match adopted {
                Ok(()) => context.log.say(&format!("{path} now belongs to {}", identity.name)),
                Err(error) => context
                    .log
                    .warn(&format!("{path} is closed to {} and stays so: {error}", identity.name)),
            }
        }
        Ok(_) => {}
        Err(error) => {
            context.log.warn(&format!("look at directory {}: {error}", path.display()));
        }
    }
}

/// Directories for a file of the broker's user, best first.
pub(super) fn places(context: &Context, fallback: &Path) -> Vec<PathBuf> {
    let own = &context.session.working_directory;
    let closed = match (&context.session.identity, fs::metadata(own)) {
        // We are root and could write, but the file would be no use to a user who cannot.
        (Some(identity), Ok(metadata)) if identity.switch => !may_write(&metadata, identity),
        (_, found) => found.is_err(),
    };
    let own = (!closed).then(|| own.clone());
    own.into_iter().chain([fallback.to_owned()]).collect()
}

fn is_for_us(path: &Path, own: &Metadata, root: &Metadata) -> bool {
    path != Path::new("/") && own.ino() != root.ino() && own.dev() == root.dev()
}

/// Whether `identity` may enter a directory and make files there, by its mode bits alone.
fn may_write(directory: &Metadata, identity: &Identity) -> bool {
    let groups = &identity.groups;
    let shift = if directory.uid() == identity.uid {
        6
    } else if directory.gid() == identity.gid || groups.contains(&directory.gid()) {
        3
    } else {
        0
    };
    (directory.mode() >> shift) & 0o3 == 0o3
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn identity(uid: u32, gid: u32) -> Identity {
        Identity {
            name: "flux".to_owned(),
            uid,
            gid,
            groups: vec![gid],
            capabilities: vec![],
            home: "/".into(),
            switch: true,
        }
    }

    #[test]
    fn the_first_class_of_mode_bits_that_fits_decides() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o570)).unwrap();
        let found = fs::metadata(directory.path()).unwrap();
        let (uid, gid) = (found.uid(), found.gid());
        assert!(!may_write(&found, &identity(uid, gid)), "owner without write permission");
        assert!(may_write(&found, &identity(uid + 1, gid)), "group");
        assert!(!may_write(&found, &identity(uid + 1, gid + 1)), "others");
    }

    #[test]
    fn the_root_directory_is_never_adopted() {
        let root = fs::metadata("/").unwrap();
        assert!(!is_for_us(Path::new("/"), &root, &root));
    }
}
