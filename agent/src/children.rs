//! Child processes of PID 1: our own, each waited for where it was started, and orphans, which the
//! kernel hands to PID 1 and which nobody else would ever wait for.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// Knows which children are our own, so that no one else's wait steals their exit status.
#[derive(Debug, Clone, Default)]
pub struct Children {
    own: Arc<Mutex<BTreeSet<i32>>>,
}

impl Children {
    /// Starts to reap orphans; they are reaped until the task is aborted or the runtime ends.
    pub fn reap_orphans(&self) -> io::Result<JoinHandle<()>> {
        let mut child_ended = signal(SignalKind::child())?;
        let children = self.clone();
        Ok(tokio::spawn(async move {
            while child_ended.recv().await.is_some() {
                children.reap();
            }
        }))
    }

    /// Starts `command` as the leader of a process group of its own.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Running> {
        let child = command.process_group(0).spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        self.with_own(|own| own.insert(pid));
        Ok(Running { child, pid: Pid::from_raw(pid), children: self.clone() })
    }

    /// Whether `pid` is a child that was started here and has not been waited for.
    pub fn are_own(&self, pid: i32) -> bool {
        self.with_own(|own| own.contains(&pid))
    }

    /// Reaps every orphan that has ended.
    ///
    /// The look is not the wait (`WNOWAIT`): when the first child that has ended is one of our own,
    /// it is left to whoever started it, and this is called again once it is gone.
    fn reap(&self) {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        loop {
            let pid = match waitid(Id::All, look) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => pid,
                Err(Errno::EINTR) => continue,
                Ok(_) | Err(_) => return,
            };
            if self.with_own(|own| own.contains(&pid.as_raw())) {
                return;
            }
            // Nothing can be done about a failure, and nobody wants the status.
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }

    fn with_own<T>(&self, look: impl FnOnce(&mut BTreeSet<i32>) -> T) -> T {
        look(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A child of our own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: Pid,
    children: Children,
}

impl Running {
    /// Its process id, which is its process group's as well.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Its standard output, if it was piped and not taken before.
    pub const fn stdout(&mut self) -> Option<tokio::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if it was piped and not taken before.
    pub const fn stderr(&mut self) -> Option<tokio::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for its end. May be called again when it was interrupted.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.children.with_own(|own| own.remove(&self.pid.as_raw()));
        self.children.reap();
        Ok(status)
    }

    /// Sends `signal` to the child alone. That it has just ended is no error.
    pub fn signal(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Sends `signal` to the child and everything it started in its process group.
    pub fn signal_group(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = killpg(self.pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.children.with_own(|own| own.remove(&self.pid.as_raw()));
    }
}
