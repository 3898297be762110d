//! What happens to one object stays with it: a deadline, and panics that go no further.

use super::error::Error;
use futures::FutureExt as _;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// Longest time for one reconcile of one object. It is a dozen requests, each of milliseconds.
pub(super) const LIMIT: Duration = Duration::from_mins(1);

/// Does `work` on one object, for at most `limit`. A panic is an error of that object: kube-runtime would raise it
/// again in the loop that serves all of them. Nothing that outlives `work` can be left half-changed by it: what is
/// shared is counters, maps behind a `Mutex` that no decision is taken under, and the client.
pub(super) async fn guarded<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => {
            tracing::error!(panic = message(panic.as_ref()), "a panic: this is a defect");
            Err(Error::Internal)
        }
        Err(_) => Err(Error::TimedOut(limit)),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
