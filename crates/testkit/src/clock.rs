//! The time in the simulation: tokio's, which a test can pause, counted from a fixed moment.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// When every simulation begins.
const BEGIN: &str = "2026-01-01T00:00:00Z";

/// The time since the clock was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock {
    /// The time in whole seconds.
    pub fn now(self) -> Timestamp {
        let begin: Timestamp = BEGIN.parse().unwrap();
        begin + SignedDuration::from_secs(i64::try_from(self.0.elapsed().as_secs()).unwrap())
    }

    /// How long ago `text` was, a time as objects have it; `None` where there is none.
    pub(crate) fn since(self, text: Option<&str>) -> Option<Duration> {
        let then: Timestamp = text?.parse().unwrap();
        Some(self.now().duration_since(then).unsigned_abs())
    }
}
