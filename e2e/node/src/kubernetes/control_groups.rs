//! The control group that all of a cluster's pods are in, and in it those of the nodes.
//!
//! Each mounted hierarchy of control groups has them; `node.sh` makes them.

use std::{collections::BTreeSet, fs, io, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use nix::errno::Errno;

use crate::wait::{Look, until};

/// How long the kernel may hold a group whose processes have ended.
const HELD: Duration = Duration::from_secs(30);

/// Removes a cluster's or a node's group and those of its pods, which must hold no process any more.
pub(crate) fn remove(group: &str) -> Result<()> {
    let mounts = procfs::process::Process::myself().and_then(|it| it.mountinfo());
    let mounts = mounts.context("looking for the hierarchies of control groups")?.into_iter();
    let hierarchies: BTreeSet<_> = mounts
        .filter(|mount| ["cgroup", "cgroup2"].contains(&mount.fs_type.as_str()))
        .map(|mount| mount.mount_point)
        .collect();
    for hierarchy in hierarchies {
        let group = hierarchy.join(group);
        let what = format!("the kernel to let go of the control group {}", group.display());
        until(&what, HELD, || match remove_group(&group) {
            Err(error) if is(&error, Errno::EBUSY) => Ok(Look::NotYet(format!("{error:#}"))),
            done => done.map(Look::Ready),
        })?;
    }
    Ok(())
}

/// Groups can only be removed one by one, the innermost first; their files go with them.
fn remove_group(group: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(group) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path())?;
        }
    }
    let removed = fs::remove_dir(group)
        .with_context(|| format!("removing the control group {}", group.display()));
    removed.or_else(|error| if is(&error, Errno::ENOENT) { Ok(()) } else { Err(error) })
}

/// Whether that is what the kernel said.
fn is(error: &anyhow::Error, errno: Errno) -> bool {
    let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    code == Some(errno as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_goes_from_the_inside_out() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path().join("group");
        fs::create_dir_all(group.join("kubepods/pod1")).unwrap();
        fs::create_dir_all(group.join("kubepods/pod2")).unwrap();
        remove_group(&group).unwrap();
        assert!(!group.exists());
        remove_group(&group).unwrap();
    }
}
