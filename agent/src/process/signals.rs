//! What asks a run to end: the signals a container's first process gets, and the deadline.

use crate::system::output::log_line;
use flux_contract::Exit;
use nix::sys::signal::Signal::{
    self, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGPIPE, SIGPWR,
    SIGQUIT, SIGSEGV, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH,
};
use signal_hook::iterator::backend::{PollResult, SignalDelivery, SignalIterator};
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Origin;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::future::{Future, pending, poll_fn};
use std::io::{self, IsTerminal as _};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream as StdStream;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::Instant;

/// Signals without a handler: nothing can handle the first two; the next six are faults of this process; the others are the
/// end of a child, a reader that has gone, and job control, by which people also pause a process.
const NOT_HANDLED: [Signal; 14] = [
    SIGKILL, SIGSTOP, SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGCHLD, SIGPIPE, SIGCONT,
    SIGTSTP, SIGTTIN, SIGTTOU,
];
/// Real-time signals that no C library keeps for itself (signal(7)).
const REAL_TIME: RangeInclusive<i32> = 35..=64;
/// `SIGRTMIN` as container runtimes count it (moby/sys, `signal_linux.go`).
const RUNTIMES_SIGRTMIN: i32 = 34;
/// `SIGRTMIN+3`, which systemd takes as a request to halt (systemd(1)).
const HALT: i32 = RUNTIMES_SIGRTMIN + 3;

type Deliveries = SignalIterator<SignalDelivery<UnixStream, WithOrigin>, WithOrigin>;

/// Receives signals from the moment it is made. The kernel drops signals to PID 1 for which it has no handler, so this
/// comes first in a run. Handlers, unlike a blocked mask, are not inherited by children.
pub(crate) struct Signals {
    deliveries: Deliveries,
    has_terminal: bool,
    deadline: Option<Pin<Box<dyn Future<Output = u64> + Send>>>,
    stopping: Option<(Stop, Instant)>,
    on_stop: Option<Box<dyn FnOnce(Stop) + Send>>,
    /// Signals of which the log has a line that they are ignored.
    ignored: BTreeSet<i32>,
}

/// A signal by its number: nix has no real-time signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number(i32);

impl Display for Number {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match Signal::try_from(self.0) {
            Ok(signal) => write!(out, "{signal}"),
            Err(_) => write!(out, "SIGRTMIN+{}", self.0 - RUNTIMES_SIGRTMIN),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("stopped by {0}")]
    Signal(Number),
    /// The MiniCluster has taken as long as it may.
    #[error("the deadline of {seconds} seconds has passed (spec.deadlineSeconds)")]
    Deadline { seconds: u64 },
}

impl Stop {
    /// The signal for a process that has to end because of it: SIGTERM, unless the signal of the stop is one by which
    /// programs are asked to end.
    pub(crate) fn signal(self) -> Signal {
        let Self::Signal(Number(number)) = self else { return SIGTERM };
        let asks = [SIGINT, SIGHUP, SIGQUIT].into_iter().find(|ask| *ask as i32 == number);
        asks.unwrap_or(SIGTERM)
    }

    pub(crate) const fn exit(self) -> Exit {
        match self {
            Self::Signal(_) => Exit::Stopped,
            Self::Deadline { .. } => Exit::Deadline,
        }
    }
}

impl From<Signal> for Stop {
    fn from(signal: Signal) -> Self {
        Self::Signal(Number(signal as i32))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Stop(Stop),
    /// The signal is the user's, for the command.
    PassOn(Signal),
}

/// The request that signal `number` is; none where it is a real-time signal of a user, which this process cannot send on.
///
/// A process in the pod has an id there. A signal without one comes from the container runtime, which sends the
/// `STOPSIGNAL` of the image, whatever that is, to stop the container (kill(2) from an outer process namespace:
/// `send_signal_locked` in Linux, `kernel/signal.c`).
fn meaning(number: i32, from_outside: bool, has_terminal: bool) -> Option<Request> {
    let stop = Request::Stop(Stop::Signal(Number(number)));
    if from_outside || number == HALT {
        return Some(stop);
    }
    let signal = Signal::try_from(number).ok()?;
    // A terminal sends SIGWINCH when its size changes; without one it is Apache's STOPSIGNAL.
    let asks = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPWR].contains(&signal)
        || signal == SIGWINCH && !has_terminal;
    Some(if asks { stop } else { Request::PassOn(signal) })
}

impl Signals {
    /// Installs the handlers. Needs a tokio runtime.
    pub(crate) fn register() -> io::Result<Self> {
        let (read, write) = StdStream::pair()?;
        read.set_nonblocking(true)?;
        let named = Signal::iterator().filter(|signal| !NOT_HANDLED.contains(signal));
        let handled = named.map(|signal| signal as i32).chain(REAL_TIME);
        let read = UnixStream::from_std(read)?;
        let deliveries = SignalDelivery::with_pipe(read, write, WithOrigin::default(), handled)?;
        Ok(Self {
            deliveries: SignalIterator::new(deliveries),
            has_terminal: io::stdin().is_terminal(),
            deadline: None,
            stopping: None,
            on_stop: None,
            ignored: BTreeSet::new(),
        })
    }

    /// From now on the end of `deadline`, whose result is its seconds, is a stop as well.
    pub(crate) fn set_deadline(&mut self, deadline: impl Future<Output = u64> + Send + 'static) {
        self.deadline = Some(Box::pin(deadline));
    }

    /// Calls `act` at the first stop.
    pub(crate) fn on_stop(&mut self, act: impl FnOnce(Stop) + Send + 'static) {
        self.on_stop = Some(Box::new(act));
    }

    pub(crate) fn stopped_by(&self) -> Option<Stop> {
        self.stopping.map(|(stop, _)| stop)
    }

    /// The next request. Dropping the future loses nothing.
    pub(crate) async fn next_request(&mut self) -> Request {
        loop {
            let Self { deliveries, deadline, .. } = self;
            let request = tokio::select! {
                origin = next_signal(deliveries) => {
                    let from_outside = origin.process.is_some_and(|process| process.pid == 0);
                    meaning(origin.signal, from_outside, self.has_terminal).ok_or(Number(origin.signal))
                }
                seconds = or_pending(deadline.as_mut()) => Ok(Request::Stop(Stop::Deadline { seconds })),
            };
            match request {
                Ok(Request::Stop(stop)) => {
                    self.note(stop);
                    return Request::Stop(stop);
                }
                Ok(request) => return request,
                Err(number) => self.ignore(number),
            }
        }
    }

    fn note(&mut self, stop: Stop) {
        self.stopping.get_or_insert_with(|| (stop, Instant::now()));
        // The deadline ends a run once.
        self.deadline = None;
        if let Some(act) = self.on_stop.take() {
            act(stop);
        }
    }

    /// Drops a signal that no process can get now; the log has one line of each.
    fn ignore(&mut self, number: Number) {
        if self.ignored.insert(number.0) {
            log_line(&format!("warning: {number} is ignored: no program runs that could get it"));
        }
    }

    pub(crate) async fn stop(&mut self) -> Stop {
        loop {
            match self.next_request().await {
                Request::Stop(stop) => return stop,
                Request::PassOn(signal) => self.ignore(Number(signal as i32)),
            }
        }
    }

    /// The result of `work`, unless a stop comes first; then `work` is dropped.
    pub(crate) async fn unless_stopped<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        tokio::select! {
            done = work => Ok(done),
            stop = self.stop() => Err(stop),
        }
    }

    /// The result of `work`, unless a stop has taken `share`; then `work` is dropped.
    pub(crate) async fn within<T>(
        &mut self,
        share: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.within_passing_on(share, work, |_| false).await
    }

    /// The same, where `pass_on` sends a signal of the user to the processes that are waited for; its result is false if
    /// there are none.
    pub(crate) async fn within_passing_on<T>(
        &mut self,
        share: Duration,
        work: impl Future<Output = T>,
        pass_on: impl Fn(Signal) -> bool,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            // The kubelet counts its grace period from the first request.
            let end = self.stopping.map(|(_, since)| since + share);
            let request = tokio::select! {
                done = &mut work => return Some(done),
                () = sleep_until(end) => return None,
                request = self.next_request() => request,
            };
            if let Request::PassOn(signal) = request
                && !pass_on(signal)
            {
                self.ignore(Number(signal as i32));
            }
        }
    }
}

/// Waits until `time`; forever where there is none.
pub(crate) async fn sleep_until(time: Option<Instant>) {
    or_pending(time.map(tokio::time::sleep_until)).await;
}

/// The result of `work`; without work it never comes.
pub(crate) async fn or_pending<T>(work: Option<impl Future<Output = T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

async fn next_signal(deliveries: &mut Deliveries) -> Origin {
    let has_signals = |read: &mut UnixStream, context: &mut Context<'_>| {
        let mut byte = [0];
        match Pin::new(read).poll_read(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Pending => Ok(false),
            Poll::Ready(read) => read.map(|()| true),
        }
    };
    poll_fn(|context| match deliveries.poll_signal(&mut |read| has_signals(read, context)) {
        PollResult::Signal(origin) => Poll::Ready(origin),
        // The pipe is this process' own: it is open as long as this waits.
        PollResult::Pending | PollResult::Closed | PollResult::Err(_) => Poll::Pending,
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use Signal::{SIGUSR1, SIGUSR2};

    fn stop(number: i32) -> Request {
        Request::Stop(Stop::Signal(Number(number)))
    }

    #[test]
    fn every_signal_of_the_runtime_stops_a_run() {
        for number in (1..=31).chain(REAL_TIME) {
            assert_eq!(meaning(number, true, false), Some(stop(number)), "{number} of the runtime");
        }
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPWR] {
            assert_eq!(meaning(signal as i32, false, true), Some(stop(signal as i32)), "{signal}");
        }
        assert_eq!(meaning(HALT, false, true), Some(stop(HALT)));
        assert_eq!(meaning(SIGWINCH as i32, false, false), Some(stop(SIGWINCH as i32)));
        for signal in [SIGUSR1, SIGUSR2, SIGWINCH] {
            let request = meaning(signal as i32, false, true);
            assert_eq!(request, Some(Request::PassOn(signal)), "{signal}");
        }
        assert_eq!(meaning(HALT + 1, false, false), None, "nobody can send it on");
    }
}
