//! The agent as the first process of a process namespace: the kernel gives it orphans and keeps
//! signals from it that it has no handler for, as in a container.

use super::{Background, Ended, Pod, await_that, skip};
use flux_contract::AgentConfig;
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// `run` as the first process of a namespace, not started yet; `None`, and a word why, where no namespace can be made.
pub fn first_process(pod: &Pod, run: &Command) -> Option<Command> {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let refusal = REFUSAL.get_or_init(|| {
        let tried = unshare().arg("true").stdin(Stdio::null()).output().unwrap();
        (!tried.status.success()).then(|| String::from_utf8_lossy(&tried.stderr).into_owned())
    });
    if let Some(refusal) = refusal {
        skip(&format!("no process namespace can be made here: {refusal}"));
        return None;
    }
    Some(pod.wrapped(unshare(), run))
}

/// `run` as [`first_process`] makes it, in a session of its own whose terminal is its standard input; and the
/// other end of that terminal.
pub fn on_terminal(pod: &Pod, run: &Command) -> Option<(Background, OwnedFd)> {
    let run = first_process(pod, run)?;
    let mut session = Command::new("setsid");
    session.arg("--ctty");
    let mut session = pod.wrapped(session, &run);
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    session.stdin(slave);
    Some((Background::start(session), master))
}

/// Whoever is not root makes a namespace in which it is.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    if !getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// A run in a namespace of its own, ended with all it started when the test is.
pub struct FirstProcess {
    unshare: Background,
}

impl FirstProcess {
    pub fn run(pod: &Pod, config: &AgentConfig) -> Option<Self> {
        Self::start(pod, &pod.prepared(config))
    }

    pub fn start(pod: &Pod, run: &Command) -> Option<Self> {
        Some(Self { unshare: Background::start(first_process(pod, run)?) })
    }

    /// Its process id outside of its namespace.
    pub fn pid(&self) -> Pid {
        let unshare = self.unshare.0.id();
        let mut pid = None;
        let children = format!("/proc/{unshare}/task/{unshare}/children");
        await_that("the first process starts", || {
            let children = fs::read_to_string(&children).unwrap_or_default();
            pid = children.trim().parse().ok();
            pid.is_some()
        });
        Pid::from_raw(pid.unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub fn end(self) -> Ended {
        self.unshare.end()
    }

    /// How many of its children have ended and were not waited for.
    pub fn zombies(&self) -> usize {
        // Behind the name there are the state and the parent (proc_pid_stat(5)).
        let zombie = format!(") Z {} ", self.pid());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let stats = processes.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&zombie)).count()
    }
}
