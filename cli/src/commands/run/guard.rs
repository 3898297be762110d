//! Work that a signal stops in order, and a second signal leaves alone.

use crate::signals::Signals;
use anyhow::{Error, Result};
use std::pin::pin;

/// How guarded work has ended.
pub(super) enum Guarded<T> {
    /// It has ended; with the exit code for the signal that stopped it, if there was one.
    Done(T, Option<u8>),
    /// It goes on: there was a second signal, or the work could not be stopped for this reason.
    Left(u8, Option<Error>),
}

/// Does `work`. The first of the `signals` starts `stop`, and `work` continues to its end.
pub(super) async fn guarded<T>(
    signals: &mut Signals,
    work: impl Future<Output = T>,
    stop: impl Future<Output = Result<()>>,
) -> Guarded<T> {
    let (mut work, mut stop) = (pin!(work), pin!(stop));
    let mut signal = None;
    let mut is_stopping = false;
    loop {
        tokio::select! {
            done = &mut work => return Guarded::Done(done, signal),
            code = signals.next() => {
                if let Some(first) = signal {
                    return Guarded::Left(first, None);
                }
                (signal, is_stopping) = (Some(code), true);
            }
            stopped = &mut stop, if is_stopping => match (stopped, signal) {
                (Err(error), Some(code)) => return Guarded::Left(code, Some(error)),
                _ => is_stopping = false,
            },
        }
    }
}
