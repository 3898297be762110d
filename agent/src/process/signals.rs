//! What asks a run to end: the signals a container's first process gets, and the deadline.

use flux_contract::Exit;
use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, sleep_until};

const TAKEN: [Signal; 6] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Takes signals from the moment it is made. The kernel drops signals to PID 1 for which it has no
/// handler, so this comes first in a run. Handlers, unlike a blocked mask, are not inherited by
/// children.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    deadline: Option<Pin<Box<dyn Future<Output = u64> + Send>>>,
    stopping: Option<(Stop, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("stopped by {0}")]
    Signal(Signal),
    /// The MiniCluster has taken as long as it may.
    #[error("the deadline of {seconds} seconds has passed (spec.deadlineSeconds)")]
    Deadline { seconds: u64 },
}

impl Stop {
    /// What a process is sent that has to end because of it.
    pub(crate) const fn signal(self) -> Signal {
        match self {
            Self::Signal(signal) => signal,
            Self::Deadline { .. } => SIGTERM,
        }
    }

    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Signal(_) => Exit::Stopped,
            Self::Deadline { .. } => Exit::Deadline,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Stop(Stop),
    /// Nothing of itself: the signal is the user's, for the command.
    PassOn(Signal),
}

impl Signals {
    /// Installs the handlers. Needs a tokio runtime.
    pub(crate) fn register() -> io::Result<Self> {
        let stream = |taken: Signal| Ok((taken, unix::signal(SignalKind::from_raw(taken as i32))?));
        let streams = TAKEN.into_iter().map(stream).collect::<io::Result<_>>()?;
        Ok(Self { streams, deadline: None, stopping: None })
    }

    /// From now on the passing of `deadline`, which gives its seconds, asks for an end as well.
    pub(crate) fn keep(&mut self, deadline: impl Future<Output = u64> + Send + 'static) {
        self.deadline = Some(Box::pin(deadline));
    }

    pub(crate) fn stopped_by(&self) -> Option<Stop> {
        self.stopping.map(|(stop, _)| stop)
    }

    /// What is asked next. Dropping the future loses nothing.
    pub(crate) async fn asked(&mut self) -> Asked {
        let Self { streams, deadline, stopping } = self;
        let asked = tokio::select! {
            signal = next_of(streams) => {
                if asks_to_stop(signal) { Asked::Stop(Stop::Signal(signal)) } else { Asked::PassOn(signal) }
            }
            seconds = end_of(deadline.as_mut()) => Asked::Stop(Stop::Deadline { seconds }),
        };
        if let Asked::Stop(stop) = asked {
            stopping.get_or_insert_with(|| (stop, Instant::now()));
            // Once it ends it ends.
            *deadline = None;
        }
        asked
    }

    pub(crate) async fn stop(&mut self) -> Stop {
        loop {
            if let Asked::Stop(stop) = self.asked().await {
                return stop;
            }
        }
    }

    /// What `work` gives, unless an end is asked for first; then `work` is dropped.
    pub(crate) async fn unless_stopped<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        tokio::select! {
            done = work => Ok(done),
            stop = self.stop() => Err(stop),
        }
    }

    /// What `work` gives, unless it has not ended when `share` of a stop's time is over; then `work`
    /// is dropped.
    pub(crate) async fn within<T>(
        &mut self,
        share: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            // The kubelet counts its grace period from the first request.
            let end = self.stopping.map(|(_, since)| since + share);
            tokio::select! {
                done = &mut work => return Some(done),
                () = at(end) => return None,
                _ = self.stop() => {}
            }
        }
    }
}

/// Waits until `time`; for ever where there is none.
pub(crate) async fn at(time: Option<Instant>) {
    end_of(time.map(sleep_until)).await;
}

/// What `work` gives; where there is none, nothing ever.
pub(crate) async fn end_of<T>(work: Option<impl Future<Output = T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

async fn next_of(streams: &mut [(Signal, unix::Signal)]) -> Signal {
    poll_fn(|context| {
        let ready = streams
            .iter_mut()
            .find_map(|(taken, stream)| stream.poll_recv(context).is_ready().then_some(*taken));
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Whether `taken` asks for an end; the user signals do not.
pub(crate) fn asks_to_stop(taken: Signal) -> bool {
    !matches!(taken, SIGUSR1 | SIGUSR2)
}
