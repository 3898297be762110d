//! Waiting for a condition with a deadline; nothing here ever waits a fixed time.

use anyhow::{Context as _, Result, bail};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(100);
/// The shortest time between two looks at a cluster.
const CLUSTER_INTERVAL: Duration = Duration::from_millis(300);
/// A look may be a program that is run, in a pod even: the pause before the next is at least so many times as long as
/// it took. Who waits would else keep a busy machine from what is waited for.
const REST: u32 = 2;

/// What one look at a condition found.
#[derive(Debug)]
pub enum Look<T> {
    /// It holds; this is what was waited for.
    Ready(T),
    /// Not yet; this is what was seen instead, for the error message.
    NotYet(String),
}

/// Looks until the condition holds, and returns what it found.
/// When `deadline` has passed, the error names `what` and what was seen last. An error of `look` ends
/// the waiting at once.
pub fn until<T>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<Look<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        let looked = Instant::now();
        let seen = match look()? {
            Look::Ready(value) => return Ok(value),
            Look::NotYet(seen) => seen,
        };
        if begun.elapsed() >= deadline {
            bail!("waited {} s for {what}; last seen: {seen}", deadline.as_secs());
        }
        thread::park_timeout(INTERVAL.max(looked.elapsed() * REST));
    }
}

/// Looks at a cluster until `look` has what it looks for, without holding up others. When `deadline` has passed, the
/// error names `what`; an error of `look` ends the waiting at once.
pub async fn until_found<T>(
    what: &str,
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let found = async {
        loop {
            let looked = Instant::now();
            if let Some(found) = look().await? {
                return Ok(found);
            }
            tokio::time::sleep(CLUSTER_INTERVAL.max(looked.elapsed() * REST)).await;
        }
    };
    tokio::time::timeout(deadline, found).await.with_context(|| format!("waiting for {what}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_names_what_was_seen_last() {
        let failed = until::<()>("rain", Duration::ZERO, || Ok(Look::NotYet("sunshine".into())));
        assert_eq!(failed.unwrap_err().to_string(), "waited 0 s for rain; last seen: sunshine");
    }
}
