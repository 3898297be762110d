//! What all processes of a round cost: those that this process, the first of their namespace, sees but itself.

use anyhow::{Context as _, Result};
use procfs::process::{Process, all_processes};

fn others() -> Result<impl Iterator<Item = Process>> {
    let all = all_processes().context("looking at the processes of the round")?;
    Ok(all.flatten().filter(|process| process.pid() != 1))
}

/// How long the processors have worked for them, and for those that have ended, in seconds.
pub(super) fn work() -> Result<f64> {
    // One that has just ended counts for its parent.
    let stats = others()?.filter_map(|process| process.stat().ok());
    let ticks = stats.map(|it| it.utime + it.stime + (it.cutime + it.cstime).unsigned_abs()).sum();
    Ok(figure(ticks) / figure(procfs::ticks_per_second()))
}

/// Their memory in MiB, each shared page counted once.
pub(super) fn memory() -> Result<f64> {
    let maps = others()?.filter_map(|process| process.smaps_rollup().ok());
    let maps = maps.flat_map(|it| it.memory_map_rollup);
    let bytes = maps.filter_map(|map| map.extension.map.get("Pss").copied()).sum();
    Ok(figure(bytes) / 1024.0 / 1024.0)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn figure(number: u64) -> f64 {
    number as f64
}
