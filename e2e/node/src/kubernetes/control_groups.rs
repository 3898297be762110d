//! The control group that all of a cluster's pods are in, and in it those of the nodes.
//!
//! Machines have one hierarchy of control groups (version 2), or one for each controller (version 1), or
//! both; each mounted hierarchy gets the groups, since the kubelet wants to find its own there.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::errno::Errno;

use super::layout::{Layout, NodeLayout};
use crate::wait::{Look, until};

/// How long the kernel may hold a group whose processes have ended.
const HELD: Duration = Duration::from_secs(30);

/// Makes the cluster's group, and that of the node in it, in every hierarchy; they may be there.
pub(crate) fn create(layout: &Layout, node: &NodeLayout) -> Result<()> {
    for hierarchy in mounted()? {
        // A file that only the root of a hierarchy of version 1 has.
        let first_version = hierarchy.join("cgroup.sane_behavior").exists();
        let mut above = hierarchy.clone();
        for group in [layout.control_group(), node.control_group()] {
            let group = hierarchy.join(group);
            enable_controllers(&above);
            fs::create_dir_all(&group)
                .with_context(|| format!("making the control group {}", group.display()))?;
            // A new cpuset of version 1 is empty and takes no process.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if first_version && group.join(file).exists() {
                    let all = fs::read_to_string(above.join(file))
                        .with_context(|| format!("reading {file} of {}", above.display()))?;
                    fs::write(group.join(file), all.trim())
                        .with_context(|| format!("writing {file} of {}", group.display()))?;
                }
            }
            above = group;
        }
    }
    Ok(())
}

/// Removes a cluster's or a node's group and those of its pods, which must hold no process any more.
pub(crate) fn remove(group: &str) -> Result<()> {
    for hierarchy in mounted()? {
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

/// In version 2 a controller works in a group only if the one above hands it on. What cannot be handed on
/// the kubelet reports, so this is no place to fail.
fn enable_controllers(hierarchy: &Path) {
    let Ok(controllers) = fs::read_to_string(hierarchy.join("cgroup.controllers")) else { return };
    for controller in controllers.split_whitespace() {
        let _ = fs::write(hierarchy.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn mounted() -> Result<Vec<PathBuf>> {
    let path = "/proc/self/mountinfo";
    let mounts = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(hierarchies(&mounts))
}

/// Mount points of type cgroup and cgroup2; the format is in `proc_pid_mountinfo(5)`.
fn hierarchies(mountinfo: &str) -> Vec<PathBuf> {
    let mount_point = |line: &str| {
        let (fields, rest) = line.split_once(" - ")?;
        let kind = rest.split(' ').next()?;
        let point = fields.split(' ').nth(4)?;
        ["cgroup", "cgroup2"].contains(&kind).then(|| PathBuf::from(point))
    };
    let mut points: Vec<_> = mountinfo.lines().filter_map(mount_point).collect();
    points.sort();
    points.dedup();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mounts = "\
            24 1 0:21 / /sys rw,relatime - sysfs sysfs rw\n\
            30 29 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n\
            31 29 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let expected = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        assert_eq!(hierarchies(mounts), expected);
    }

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
