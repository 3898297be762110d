//! What the whole machine has worked.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::unistd::{SysconfVar, sysconf};

/// Processor time of all programs and of the kernel since the start of the machine (`/proc/stat`).
pub(super) fn time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let a_second = sysconf(SysconfVar::CLK_TCK).context("asking how long a tick is")?;
    let a_second = a_second.and_then(|ticks| u32::try_from(ticks).ok()).unwrap_or(100);
    let ticks = ticks(&text).context("/proc/stat does not begin with the processors' times")?;
    Ok(Duration::from_secs(ticks) / a_second)
}

/// Ticks that were spent in anything but waiting.
fn ticks(stat: &str) -> Option<u64> {
    let mut words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || words.next()?.parse::<u64>().ok();
    let (user, nice, system, _idle, _waiting) = (next()?, next()?, next()?, next()?, next()?);
    let interrupts = next()? + next()?;
    Some(user + nice + system + interrupts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_no_work() {
        assert_eq!(ticks("cpu  10 1 5 1000 500 2 3 70 0 0\ncpu0 1 1 1\n"), Some(21));
        assert_eq!(ticks("intr 1 2 3\n"), None);
    }

    #[test]
    fn this_machine_has_worked() {
        assert!(time().unwrap() > Duration::from_millis(10));
    }
}
