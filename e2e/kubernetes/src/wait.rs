//! Waiting for a condition with a deadline; nothing here ever waits a fixed time.

use anyhow::{Context as _, Result, bail};
use std::thread;
use std::time::{Duration, Instant};

/// The pause between two attempts.
const INTERVAL: Duration = Duration::from_millis(100);
/// The shortest pause between two requests to a cluster.
const CLUSTER_INTERVAL: Duration = Duration::from_millis(300);
/// The pause after an attempt is at least so many times as long as the attempt. An attempt may run a program, even in a
/// pod: without pauses the waiting test would keep a busy machine from the work that it waits for.
const PAUSE_FACTOR: u32 = 2;

/// Calls `attempt` until its inner result is no error, and returns the value. When `deadline` has passed, the error names
/// `what` and the last inner error. An outer error ends the waiting at once.
pub fn until<T>(
    what: &str,
    deadline: Duration,
    mut attempt: impl FnMut() -> Result<Result<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        let begun_at = Instant::now();
        match attempt()? {
            Err(seen) if begun.elapsed() >= deadline => {
                bail!("waited {} s for {what}; last seen: {seen:#}", deadline.as_secs())
            }
            Err(_) => thread::park_timeout(INTERVAL.max(begun_at.elapsed() * PAUSE_FACTOR)),
            ready => return ready,
        }
    }
}

/// Calls `attempt`, which asks a cluster, until it finds a value; other tasks run meanwhile. When `deadline` has
/// passed, the error names `what`. An error of `attempt` ends the waiting at once.
pub async fn until_found<T>(
    what: &str,
    deadline: Duration,
    mut attempt: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let found = async {
        loop {
            let begun_at = Instant::now();
            if let Some(found) = attempt().await? {
                return Ok(found);
            }
            tokio::time::sleep(CLUSTER_INTERVAL.max(begun_at.elapsed() * PAUSE_FACTOR)).await;
        }
    };
    tokio::time::timeout(deadline, found).await.with_context(|| format!("waiting for {what}"))?
}
