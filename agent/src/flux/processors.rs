//! The processors of this container: its affinity mask, their cores, and the limit of its control group.

use crate::system::root::Root;
use flux_protocol::idset::ids_of;
use std::collections::BTreeSet;
use std::fs;

const CONTROL_GROUP: &str = "/sys/fs/cgroup";
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// The processors of the affinity mask, which a cpuset narrows. `sched_getaffinity(2)` fails with libc's set if the kernel
/// has more than 1,024 processors, so this reads `/proc`.
fn allowed(root: &Root) -> Vec<u32> {
    let status = fs::read_to_string(root.at("/proc/self/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| ids_of(list.trim())).unwrap_or_default()
}

/// Cores with a processor of the affinity mask, as hwloc counts them; at least one.
///
/// sysfs has a file with all processors of the core of each processor (Linux,
/// `Documentation/ABI/stable/sysfs-devices-system-cpu`; another name before 5.3). A processor without it counts as a core.
pub(crate) fn cores(root: &Root) -> usize {
    let processors = root.at(PROCESSORS);
    let core_of = |number: u32| {
        let topology = processors.join(format!("cpu{number}/topology"));
        let read = |name: &str| fs::read_to_string(topology.join(name)).ok();
        read("core_cpus_list")
            .or_else(|| read("thread_siblings_list"))
            .unwrap_or_else(|| number.to_string())
    };
    allowed(root).into_iter().map(core_of).collect::<BTreeSet<_>>().len().max(1)
}

/// Processors of the affinity mask, at most as many as the CPU limit has whole ones; at least one.
pub(crate) fn usable(root: &Root) -> usize {
    let allowed = allowed(root).len();
    let whole =
        limit(root).map(|limit| (1..=allowed).take_while(move |count| at_most(*count, limit)));
    whole.map_or(allowed, Iterator::count).max(1)
}

pub(crate) fn at_most(count: usize, limit: f64) -> bool {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) <= limit + 0.01
}

/// Whether a static CPU manager has given this container `exclusive` processors of its own. Without such a manager, the
/// container may run on all processors of the node.
pub(crate) fn are_own(root: &Root, exclusive: Option<u32>) -> bool {
    let online = fs::read_to_string(root.at(PROCESSORS).join("online")).unwrap_or_default();
    let (own, online) = (allowed(root).len(), ids_of(online.trim()).unwrap_or_default().len());
    own < online && exclusive.is_some_and(|count| u32::try_from(own) == Ok(count))
}

/// Processors by the quota of the control group, in both versions.
pub(crate) fn limit(root: &Root) -> Option<f64> {
    let quota_and_period = || {
        let file = |name: &str| control_group(root, &format!("cpu/cpu.cfs_{name}_us"));
        Some(format!("{} {}", file("quota")?, file("period")?))
    };
    let text = control_group(root, "cpu.max").or_else(quota_and_period)?;
    // `max`, or -1 in version 1, where there is no limit.
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The text of the file `path` of this container's control group. A privileged container sees all groups of version 2.
pub(super) fn control_group(root: &Root, path: &str) -> Option<String> {
    let groups = fs::read_to_string(root.at("/proc/self/cgroup")).unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let directory = root.at(CONTROL_GROUP);
    let mut places = [own, ""].into_iter().map(|group| directory.join(group).join(path));
    places.find_map(|path| fs::read_to_string(path).ok()).map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn container(files: &[(&str, &str)]) -> (TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        for (path, text) in files {
            let path = root.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, root)
    }

    fn runs_on(list: &str) -> String {
        format!("Name:\ta\nCpus_allowed:\t3\nCpus_allowed_list:\t{list}\nVoluntary:\t1\n")
    }

    #[test]
    fn processors_that_share_a_core_are_one() {
        let (_pod, root) = container(&[("/proc/self/status", &runs_on("0-1023,4000"))]);
        assert_eq!((cores(&root), usable(&root)), (1025, 1025));
        for (name, together) in [("thread_siblings_list", 1024), ("core_cpus_list", 1023)] {
            for number in [0, 1, 4000] {
                let topology = root.at(format!("{PROCESSORS}/cpu{number}/topology"));
                fs::create_dir_all(&topology).unwrap();
                let siblings = if number == 1 && together == 1024 { "1" } else { "0-1,4000" };
                fs::write(topology.join(name), siblings).unwrap();
            }
            assert_eq!(cores(&root), together, "{name}");
        }
    }

    #[test]
    fn the_quota_is_read_from_both_versions_of_control_groups() {
        let status = runs_on("0-7");
        let usable = |files: &[(&str, &str)]| {
            let (_pod, root) = container(&[&[("/proc/self/status", &*status)], files].concat());
            (usable(&root), limit(&root))
        };
        let own = ["/proc/self/cgroup", "/sys/fs/cgroup/kubepods/pod1/2/cpu.max"];
        let first = ["quota", "period"].map(|name| format!("/sys/fs/cgroup/cpu/cpu.cfs_{name}_us"));
        for (quota, period, expected) in [
            ("150000", "100000\n", (1, Some(1.5))),
            ("50000", "100000\n", (1, Some(0.5))),
            ("1600000", "100000\n", (8, Some(16.0))),
            ("max", "100000\n", (8, None)),
            ("-1", "100000\n", (8, None)),
        ] {
            let both = format!("{quota} {period}");
            assert_eq!(usable(&[("/sys/fs/cgroup/cpu.max", &both)]), expected, "{both}");
            let privileged = [(own[0], "0::/kubepods/pod1/2\n"), (own[1], &*both)];
            assert_eq!(usable(&privileged), expected, "{both}");
            if quota != "max" {
                assert_eq!(usable(&[(&first[0], quota), (&first[1], period)]), expected, "{both}");
            }
        }
        assert_eq!(super::usable(&container(&[]).1), 1);
    }

    #[test]
    fn only_a_static_cpu_manager_gives_own_processors() {
        for (exclusive, list, own) in [
            (Some(2), "2-3", true),
            // Every processor of the node: no CPU manager, or none that is static.
            (Some(2), "0-7", false),
            (Some(8), "0-7", false),
            // The processors that other containers do not own.
            (Some(2), "0-5", false),
            (None, "0-5", false),
        ] {
            let files = [
                ("/proc/self/status", &*runs_on(list)),
                ("/sys/devices/system/cpu/online", "0-7\n"),
            ];
            assert_eq!(are_own(&container(&files).1, exclusive), own, "{exclusive:?} {list}");
        }
    }
}
