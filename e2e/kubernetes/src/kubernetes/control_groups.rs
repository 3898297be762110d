//! The control group that all of a cluster's pods are in, and in it those of the nodes.
//!
//! Each mounted hierarchy of control groups has them; `node.sh` makes them.

use crate::prelude::*;
use crate::wait::until;
use fs_err as fs;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use walkdir::WalkDir;

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
            Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(Err(error.into())),
            done => Ok(Ok(done?)),
        })?;
    }
    Ok(())
}

/// Groups can only be removed one by one, the innermost first; their files go with them.
fn remove_group(group: &Path) -> io::Result<()> {
    let entries = WalkDir::new(group).contents_first(true).into_iter().flatten();
    for inner in entries.filter(|entry| entry.file_type().is_dir()) {
        match fs::remove_dir(inner.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
