//! Keeps the failure of one MiniCluster from the others: a deadline, and a limit for panics.

use super::error::Error;
use futures::FutureExt as _;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// Longest time for one reconcile, which sends about a dozen requests of some milliseconds.
pub(super) const RECONCILE_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs `work` on one MiniCluster for at most `limit`, and turns a panic into an error: kube-runtime would raise the
/// panic again in the loop that serves all MiniClusters. A panic cannot leave shared state half-changed: `work`
/// shares only counters, maps behind a `Mutex` that no decision is made under, and the client.
pub(super) async fn guarded<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => {
            tracing::error!(panic = message(panic.as_ref()), "a reconcile panicked");
            Err(Error::Internal)
        }
        Err(_) => Err(Error::TimedOut(limit)),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
