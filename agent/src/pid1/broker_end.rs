//! How a broker ended, for all that decides by it.

use crate::process::signals::Stop;

/// How a broker's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokerEnd {
    /// Its exit code, 128 + N for signal N.
    pub code: i32,
    /// What asked for the end, if something did.
    pub stop: Option<Stop>,
    /// When it did so first, by `monotonic_nanoseconds`.
    pub stopped: Option<u64>,
    /// It was seen in state `run`.
    pub ran: bool,
    /// It was ended because the lead is gone.
    pub lead_lost: bool,
    /// It was ended because fewer brokers are enough than it waited for.
    pub quorum_is_smaller: bool,
    /// When it started, by `monotonic_nanoseconds`.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}
