//! The longest time that a run may take (`spec.deadlineSeconds`).
//!
//! The Job's own deadline deletes the pods, and their logs with them. So the agent of the pod of
//! index 0 keeps it: it ends the run as any stop does and fails with a code of its own.

use flux_contract::Shutdown;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often the configuration is read again. The kubelet needs about a minute to bring a changed
/// one to the pod, so that more often would tell nothing more.
pub(crate) const LOOK: Duration = Duration::from_secs(10);

/// The deadline as the configuration has it, which may change while the run goes on.
#[derive(Debug)]
pub(crate) struct Deadline {
    began: Instant,
    seconds: Option<u64>,
    config: PathBuf,
    next_look: Instant,
}

impl Deadline {
    /// The deadline of `shutdown` for a run that began at `began`, whose configuration lies at `config`;
    /// nothing where it was started without one.
    pub(crate) fn new(shutdown: Shutdown, began: Instant, config: PathBuf) -> Option<Self> {
        let seconds = Some(shutdown.deadline_seconds?);
        Some(Self { began, seconds, config, next_look: began + LOOK })
    }

    /// Waits until it has passed and returns its seconds. May be dropped and called again.
    pub(crate) async fn passed(&mut self) -> u64 {
        loop {
            let due = self.due();
            let look = self.next_look;
            sleep_until(due.map_or(look, |due| due.min(look))).await;
            // Also when it is due: what is given then is what counts.
            self.look();
            match (self.seconds, self.due()) {
                (Some(seconds), Some(due)) if due <= Instant::now() => return seconds,
                _ => {}
            }
        }
    }

    /// When it passes; never where that is further away than a clock can show.
    fn due(&self) -> Option<Instant> {
        self.began.checked_add(Duration::from_secs(self.seconds?))
    }

    /// What cannot be read changes nothing.
    fn look(&mut self) {
        self.next_look = Instant::now() + LOOK;
        let text = fs::read_to_string(&self.config).ok();
        if let Some(shutdown) = text.and_then(|text| Shutdown::of_document(&text)) {
            self.seconds = shutdown.deadline_seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that began now with a deadline of `seconds`, and its configuration, which says `later`.
    fn deadline(seconds: u64, later: Option<u64>) -> (Deadline, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("agent.toml");
        let later = later.map(|seconds| format!("deadline_seconds = {seconds}"));
        let text = format!("version = 1\n[shutdown]\n{}\n", later.unwrap_or_default());
        fs::write(&config, text).unwrap();
        let first = Shutdown { deadline_seconds: Some(seconds), ..Shutdown::default() };
        (Deadline::new(first, Instant::now(), config).unwrap(), directory)
    }

    #[tokio::test(start_paused = true)]
    async fn it_passes_when_the_configuration_says_so_then() {
        for (first, later, passes) in [(60, 60, 60), (60, 90, 90), (3600, 5, 10), (25, 12, 12)] {
            let (mut deadline, _directory) = deadline(first, Some(later));
            let began = Instant::now();
            assert_eq!(deadline.passed().await, later);
            assert_eq!(began.elapsed().as_secs(), passes, "{first} s, then {later} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_taken_back_never_passes_and_an_unreadable_one_stays() {
        let (mut deadline, directory) = deadline(60, None);
        let year = Duration::from_hours(24 * 365);
        assert!(tokio::time::timeout(Duration::from_hours(24), deadline.passed()).await.is_err());
        drop(directory);
        deadline.seconds = Some(60);
        assert_eq!(tokio::time::timeout(year, deadline.passed()).await, Ok(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_dropped_loses_nothing() {
        let (mut deadline, _directory) = deadline(60, Some(60));
        let began = Instant::now();
        let passed = loop {
            let second = Duration::from_secs(1);
            if let Ok(seconds) = tokio::time::timeout(second, deadline.passed()).await {
                break seconds;
            }
        };
        assert_eq!((passed, began.elapsed().as_secs()), (60, 60));
    }
}
