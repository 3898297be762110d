//! The longest time that a run may take (`spec.deadlineSeconds`).
//!
//! At the Job's own deadline Kubernetes deletes the pods, and their logs with them. So the agent of the pod of index 0 ends
//! the run in time, as a stop does, with a code of its own.

use crate::plan::config::{CONFIG_POLL, ConfigReader};
use flux_contract::Shutdown;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Waits until `seconds` have passed since `began`, or as many as the configuration at `config` has by then. The result is
/// their number. A configuration that cannot be read changes nothing.
pub(crate) async fn passed(began: Instant, seconds: u64, config: PathBuf) -> u64 {
    let (mut seconds, mut config) = (Some(seconds), ConfigReader::new(config));
    loop {
        // `None` where a clock cannot show that time.
        let due = |seconds| began.checked_add(Duration::from_secs(seconds));
        let look = Instant::now() + CONFIG_POLL;
        sleep_until(seconds.and_then(due).map_or(look, |due| due.min(look))).await;
        // Also when it is due: the number of that moment counts.
        let text = config.read().await;
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
    use std::fs;
    use std::pin::pin;
    use tokio::time::timeout;

    fn configuration(later: Option<u64>) -> tempfile::NamedTempFile {
        let later = later.map(|seconds| format!("deadline_seconds = {seconds}"));
        let config = tempfile::NamedTempFile::new().unwrap();
        let text = format!("version = 1\n[shutdown]\n{}\n", later.unwrap_or_default());
        fs::write(config.path(), text).unwrap();
        config
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_deadline_counts() {
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
    async fn a_removed_deadline_never_passes_and_an_unreadable_one_stays() {
        let (began, config) = (Instant::now(), configuration(None));
        let taken_back = passed(began, 60, config.path().to_owned());
        assert!(timeout(Duration::from_hours(24), taken_back).await.is_err());
        let unreadable = passed(Instant::now(), 60, "/no/such/agent.toml".into());
        assert_eq!(timeout(Duration::from_secs(61), unreadable).await, Ok(60));
    }
}
