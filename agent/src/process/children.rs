//! Child processes of PID 1: its own, and orphans, which the kernel hands to PID 1 and for which no other process waits.
//!
//! One task waits for all of them, as in other first processes: the status of an own child goes to the code that started
//! it, that of an orphan is dropped. Processes are therefore started with the standard library, which waits for nothing by
//! itself; tokio would. `rustix` waits, because `nix` refuses the status of a process that a real-time signal ended. The
//! locks are those of `parking_lot`, which no panic poisons.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Own children that have not ended, each with the sender of its status.
type Own = BTreeMap<i32, watch::Sender<Option<ExitStatus>>>;

/// Starts processes and waits for them, and for orphans.
#[derive(Debug, Clone)]
pub struct Children {
    own: Arc<Mutex<Own>>,
}

impl Children {
    /// Waits for children from here on until the runtime ends.
    pub fn reaped() -> io::Result<Self> {
        let mut child_ended = signal(SignalKind::child())?;
        let children = Self { own: Arc::default() };
        let reaper = children.clone();
        tokio::spawn(async move {
            // Also children that ended before there was a handler.
            reaper.reap();
            while child_ended.recv().await.is_some() {
                reaper.reap();
            }
        });
        Ok(children)
    }

    /// Starts `command` as the leader of a process group of its own.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Running> {
        // The lock keeps the reaper away: it could not tell the status of the child from an orphan's.
        self.with_own(|own| {
            let child = command.as_std_mut().process_group(0).spawn().map_err(explained)?;
            let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
            let (status, ended) = watch::channel(None);
            own.insert(pid, status);
            Ok(Running {
                pid: Pid::from_raw(pid),
                stdout: child.stdout.and_then(|stream| ChildStdout::from_std(stream).ok()),
                stderr: child.stderr.and_then(|stream| ChildStderr::from_std(stream).ok()),
                ended,
                children: self.clone(),
            })
        })
    }

    /// The output of `command` for an empty input. Dropping the future kills the process group of the command.
    pub(crate) async fn output(&self, command: &mut Command) -> io::Result<Output> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = self.spawn(command)?;
        running.output().await
    }

    /// Whether `pid` is a child that was started here and has not been waited for.
    pub(crate) fn are_own(&self, pid: i32) -> bool {
        self.with_own(|own| own.contains_key(&pid))
    }

    fn reap(&self) {
        self.with_own(|own| {
            loop {
                match wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) => {
                        if let Some(waiting) = own.remove(&pid.as_raw_nonzero().get()) {
                            waiting.send_replace(Some(ExitStatus::from_raw(status.as_raw())));
                        }
                    }
                    Err(Errno::INTR) => {}
                    // None has ended, or there is none.
                    Ok(None) | Err(_) => return,
                }
            }
        });
    }

    /// The lock keeps the reaper away, so that the process id is still that of the child.
    fn unless_ended(&self, pid: Pid, send: impl FnOnce(Pid) -> nix::Result<()>) {
        self.with_own(|own| {
            if own.contains_key(&pid.as_raw()) {
                let _ = send(pid);
            }
        });
    }

    fn with_own<T>(&self, look: impl FnOnce(&mut Own) -> T) -> T {
        look(&mut self.own.lock())
    }
}

/// Adds the limit that a failed fork(2) has met.
fn explained(error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    let text = format!(
        "fork: {error}: the pod has as many processes and threads as it may have (podPidsLimit of the kubelet)"
    );
    io::Error::new(error.kind(), text)
}

/// An own child. Dropping it while it runs kills its process group.
#[derive(Debug)]
pub struct Running {
    /// Its process id, which is its process group's as well.
    pub pid: Pid,
    /// Its standard output, if that was piped.
    pub stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    ended: watch::Receiver<Option<ExitStatus>>,
    children: Children,
}

impl Running {
    /// Waits for its end. May be called again when it was interrupted.
    pub async fn wait(&mut self) -> ExitStatus {
        let status = self.ended.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        // What sends it is there until it was sent, or this is dropped.
        status.unwrap_or_else(|| ExitStatus::from_raw(Signal::SIGKILL as i32))
    }

    /// What it writes until its end to its standard output and error, which are piped.
    pub(crate) async fn output(mut self) -> io::Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let (Some(out), Some(err)) = (&mut self.stdout, &mut self.stderr) {
            tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
        }
        Ok(Output { status: self.wait().await, stdout, stderr })
    }

    /// Sends `signal` to the child alone. That it has just ended is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        self.children.unless_ended(self.pid, |pid| kill(pid, signal));
    }

    /// Sends `signal` to the child and everything it started in its process group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        self.children.unless_ended(self.pid, |pid| killpg(pid, signal));
    }

    /// Sends a signal as [`Running::signal_group`] does, also while other code waits for the child's end.
    pub(crate) fn group_sender(&self) -> impl Fn(Signal) + use<> {
        let (pid, children) = (self.pid, self.children.clone());
        move |signal| children.unless_ended(pid, |pid| killpg(pid, signal))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal_group(Signal::SIGKILL);
        // From here on it is an orphan like any other.
        self.children.with_own(|own| own.remove(&self.pid.as_raw()));
    }
}
