//! A control group, by which the kernel counts the work of all processes of a round, also of those that have ended.

use anyhow::{Context as _, Result};
use fs_err as fs;
use procfs::process::Process;
use std::path::{Path, PathBuf};

/// Hierarchies of control groups that count work, the older ones first.
const HIERARCHIES: [&str; 3] =
    ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];

/// A group that is removed with this value; its processes must have ended.
#[derive(Debug)]
pub(super) struct ControlGroup(PathBuf);

impl ControlGroup {
    pub(super) fn new() -> Result<Self> {
        let hierarchy = HIERARCHIES.iter().map(Path::new).find(|path| path.exists());
        let hierarchy = hierarchy.context("looking for the control groups of this machine")?;
        let path = hierarchy.join(format!("flux-bench-{}", std::process::id()));
        fs::create_dir_all(&path).context("making a control group, which needs root")?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // An empty group that stays does no harm.
        let _ = fs::remove_dir(&self.0);
    }
}

/// How long the processors have worked for the group at `path`, in seconds.
pub(super) fn work(path: &Path) -> Result<f64> {
    if let Ok(nanoseconds) = fs::read_to_string(path.join("cpuacct.usage")) {
        return Ok(nanoseconds.trim().parse::<f64>().context("reading the work")? / 1e9);
    }
    let statistics = fs::read_to_string(path.join("cpu.stat"))?;
    let used = statistics.lines().find_map(|line| line.strip_prefix("usage_usec "));
    let used = used.context("looking for the work in cpu.stat")?;
    Ok(used.parse::<f64>().context("reading the work")? / 1e6)
}

/// The memory of the group's processes in MiB, each shared page counted once, and the most descriptors of one process.
pub(super) fn memory_and_descriptors(path: &Path) -> Result<(f64, usize)> {
    let (mut bytes, mut most) = (0, 0);
    let members = fs::read_to_string(path.join("cgroup.procs"))?;
    for member in members.lines().filter_map(|line| line.parse().ok()) {
        // One that has just ended needs nothing.
        let Ok(process) = Process::new(member) else { continue };
        let Ok(maps) = process.smaps_rollup() else { continue };
        let shares = maps.memory_map_rollup.iter().filter_map(|map| map.extension.map.get("Pss"));
        bytes += shares.sum::<u64>();
        most = most.max(process.fd_count().unwrap_or_default());
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok((bytes as f64 / 1024.0 / 1024.0, most))
}
