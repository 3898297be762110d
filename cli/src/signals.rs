//! The signals that ask a program to end: SIGINT, SIGTERM and SIGHUP.

use crate::exit::INTERRUPTED;
use anyhow::{Context as _, Error, Result};
#[cfg(unix)]
use futures::future::{pending, select_all};
use std::pin::pin;

/// The signals that this process receives, in place of their default action, which ends it.
pub(crate) struct Signals(Inner);

#[cfg(unix)]
type Inner = Vec<(u8, tokio::signal::unix::Signal)>;
#[cfg(windows)]
type Inner = tokio::signal::windows::CtrlC;

impl Signals {
    #[cfg(unix)]
    pub(crate) fn catch() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let caught = kinds.into_iter().filter(|kind| !is_ignored(kind.as_raw_value()));
        let caught = caught.map(|kind| {
            let code = u8::try_from(128 + kind.as_raw_value()).unwrap_or(INTERRUPTED);
            Ok((code, signal(kind).context("catch signals")?))
        });
        caught.collect::<Result<_>>().map(Self)
    }

    #[cfg(windows)]
    pub(crate) fn catch() -> Result<Self> {
        tokio::signal::windows::ctrl_c().context("catch Ctrl-C").map(Self)
    }

    /// Waits for a signal, and returns the exit code of shells after it: 128 and its number.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> u8 {
        let received = self.0.iter_mut().map(|(code, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *code
            })
        });
        let received: Vec<_> = received.collect();
        if received.is_empty() {
            return pending().await;
        }
        select_all(received).await.0
    }

    #[cfg(windows)]
    pub(crate) async fn next(&mut self) -> u8 {
        self.0.recv().await;
        INTERRUPTED
    }
}

pub(crate) enum Guarded<T> {
    /// It has ended; with the exit code for the signal that stopped it, if there was one.
    Done(T, Option<u8>),
    /// It goes on: there was a second signal, or the work could not be stopped for this reason.
    Left(u8, Option<Error>),
}

/// Does `work`. The first of the `signals` starts `stop`, and `work` continues to its end.
pub(crate) async fn guarded<T>(
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

/// Whether this process was started with that signal ignored, as `nohup` and shells do for programs that outlive them. Only
/// Linux shows that (`proc_pid_status(5)`).
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
