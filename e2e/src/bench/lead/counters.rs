//! What the kernel counts of TCP in a network.

use std::fs;

use anyhow::{Context as _, Result};

/// Counters of [`PATH`] since the network was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Connections that somebody began to make.
    pub(super) begun: u64,
    /// Those of them that were refused or given up.
    pub(super) failed: u64,
}

/// Of the calling thread's network: `/proc/net` is that of the process.
const PATH: &str = "/proc/thread-self/net/snmp";

impl Counters {
    /// As they are now.
    pub(super) fn now() -> Result<Self> {
        let text = fs::read_to_string(PATH).with_context(|| format!("reading {PATH}"))?;
        read(&text).with_context(|| format!("{PATH} does not count connections"))
    }

    /// What came after `before`.
    pub(super) const fn since(self, before: &Self) -> Self {
        Self {
            begun: self.begun.saturating_sub(before.begun),
            failed: self.failed.saturating_sub(before.failed),
        }
    }
}

/// Two lines that begin with `Tcp:`, one of names, one of numbers.
fn read(text: &str) -> Option<Counters> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    Some(Counters { begun: value("ActiveOpens")?, failed: value("AttemptFails")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text =
            "Ip: A B\nIp: 1 2\nTcp: RtoMin ActiveOpens PassiveOpens AttemptFails\nTcp: 200 7 5 3\n";
        assert_eq!(read(text), Some(Counters { begun: 7, failed: 3 }));
        assert_eq!(read("Tcp: ActiveOpens\n"), None);
        assert!(Counters::now().is_ok());
    }
}
