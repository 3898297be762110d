//! The signals that ask a program to end: SIGINT, SIGTERM and SIGHUP.

use anyhow::{Context as _, Result};

/// The signals that this process receives, in place of their default action, which ends it.
pub(crate) struct Signals(Inner);

#[cfg(unix)]
type Inner = [(u8, tokio::signal::unix::Signal); 3];
#[cfg(windows)]
type Inner = tokio::signal::windows::CtrlC;

impl Signals {
    /// Catches these signals until the process ends.
    #[cfg(unix)]
    pub(crate) fn catch() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let [int, term, hup] = [
            (2, SignalKind::interrupt()),
            (15, SignalKind::terminate()),
            (1, SignalKind::hangup()),
        ]
        .map(|(number, kind)| anyhow::Ok((128 + number, signal(kind).context("catch signals")?)));
        Ok(Self([int?, term?, hup?]))
    }

    /// Catches Ctrl-C until the process ends.
    #[cfg(windows)]
    pub(crate) fn catch() -> Result<Self> {
        tokio::signal::windows::ctrl_c().context("catch Ctrl-C").map(Self)
    }

    /// Waits for a signal, and returns the exit code of shells after it: 128 and its number.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> u8 {
        let [(a, int), (b, term), (c, hup)] = &mut self.0;
        tokio::select! {
            _ = int.recv() => *a,
            _ = term.recv() => *b,
            _ = hup.recv() => *c,
        }
    }

    /// Waits for Ctrl-C, and returns the exit code of shells after it.
    #[cfg(windows)]
    pub(crate) async fn next(&mut self) -> u8 {
        self.0.recv().await;
        crate::exit::INTERRUPTED
    }
}
