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

/// Waits until `seconds` have passed since `began`, or as many as the configuration at `config` says then, and returns
/// their number. What cannot be read changes nothing.
pub(crate) async fn passed(began: Instant, seconds: u64, config: PathBuf) -> u64 {
    let mut seconds = Some(seconds);
    loop {
        // Never where that is further away than a clock can show.
        let due = |seconds| began.checked_add(Duration::from_secs(seconds));
        let look = Instant::now() + LOOK;
        sleep_until(seconds.and_then(due).map_or(look, |due| due.min(look))).await;
        // Also when it is due: what is given then is what counts.
        let text = fs::read_to_string(&config).ok();
        if let Some(shutdown) = text.and_then(|text| Shutdown::of_document(&text)) {
            seconds = shutdown.deadline_seconds;
        }
        if let Some(seconds) = seconds
            && due(seconds).is_some_and(|due| due <= Instant::now())
        {
            return seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio::time::timeout;

    /// The configuration of a run, which says `later`.
    fn configuration(later: Option<u64>) -> tempfile::NamedTempFile {
        let later = later.map(|seconds| format!("deadline_seconds = {seconds}"));
        let config = tempfile::NamedTempFile::new().unwrap();
        let text = format!("version = 1\n[shutdown]\n{}\n", later.unwrap_or_default());
        fs::write(config.path(), text).unwrap();
        config
    }

    #[tokio::test(start_paused = true)]
    async fn it_passes_when_the_configuration_says_so_then() {
        for (first, later, passes) in [(60, 60, 60), (60, 90, 90), (3600, 5, 10), (25, 12, 12)] {
            let (began, config) = (Instant::now(), configuration(Some(later)));
            let mut deadline = pin!(passed(began, first, config.path().to_owned()));
            let passed = loop {
                if let Ok(seconds) = timeout(Duration::from_secs(1), &mut deadline).await {
                    break seconds;
                }
            };
            assert_eq!((passed, began.elapsed().as_secs()), (later, passes), "{first} s at first");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_taken_back_never_passes_and_an_unreadable_one_stays() {
        let (began, config) = (Instant::now(), configuration(None));
        let taken_back = passed(began, 60, config.path().to_owned());
        assert!(timeout(Duration::from_hours(24), taken_back).await.is_err());
        let unreadable = passed(Instant::now(), 60, "/no/such/agent.toml".into());
        assert_eq!(timeout(Duration::from_secs(61), unreadable).await, Ok(60));
    }
}
