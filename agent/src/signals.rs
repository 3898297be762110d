//! The signals a container's first process gets.

use nix::sys::signal::Signal;
use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind};

const TAKEN: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Takes signals from the moment it is made. The kernel drops signals to PID 1 for which it has no
/// handler, so this comes first in a run. Handlers, unlike a blocked mask, are not inherited by
/// children.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

/// A signal asked the run to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped by {0}")]
pub struct Stop(pub Signal);

impl Signals {
    /// Installs the handlers. Needs a tokio runtime.
    pub fn register() -> io::Result<Self> {
        let streams = TAKEN.iter().map(|taken| {
            let stream = unix::signal(SignalKind::from_raw(*taken as i32))?;
            Ok((*taken, stream))
        });
        Ok(Self { streams: streams.collect::<io::Result<_>>()? })
    }

    /// The next signal. Dropping the future loses none.
    pub async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (taken, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*taken);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that asks for an end.
    pub async fn stop(&mut self) -> Stop {
        loop {
            let taken = self.next().await;
            if asks_to_stop(taken) {
                return Stop(taken);
            }
        }
    }

    /// What `work` gives, unless a signal asks for an end first; then `work` is dropped.
    pub async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            done = work => Ok(done),
            stop = self.stop() => Err(stop),
        }
    }
}

/// Whether `taken` asks for an end; the user signals do not.
pub fn asks_to_stop(taken: Signal) -> bool {
    !matches!(taken, Signal::SIGUSR1 | Signal::SIGUSR2)
}
