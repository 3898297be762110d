//! What is to happen later.

use std::time::Duration;

use tokio::time::Instant;

/// Something that falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// The regular message to children, or a look at how long the parent has heard nothing.
    Heartbeat,
    /// Warn of a slow quorum.
    QuorumWarning,
    /// Warn of slow peers.
    ShutdownWarning,
    /// Give up on peers.
    ShutdownTimeout,
    /// Give up on jobs.
    CleanupTimeout,
    /// Give up on the parent's farewell.
    GoodbyeTimeout,
    /// A job's time is up.
    JobLimit(u64),
    /// A job's tasks ignored SIGTERM.
    JobKill(u64),
}

/// A far moment, for when nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// Deadlines in no particular order; there are few.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(Vec<(Instant, Deadline)>);

impl Deadlines {
    /// Adds one.
    pub(crate) fn set(&mut self, after: Duration, deadline: Deadline) {
        self.0.push((Instant::now() + after, deadline));
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Instant {
        let idle = Instant::now() + IDLE;
        self.0.iter().map(|(at, _)| *at).min().unwrap_or(idle)
    }

    /// Takes out those that are due.
    pub(crate) fn due(&mut self) -> Vec<Deadline> {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.0).into_iter().partition(|(at, _)| *at <= now);
        self.0 = later;
        let due: Vec<(Instant, Deadline)> = due;
        due.into_iter().map(|(_, deadline)| deadline).collect()
    }
}
