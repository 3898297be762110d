//! Starts processes that outlive this one, records them, and finds out later whether they still run.
//!
//! The kernel may give a process id to another process later. So a record also has the start of the process and the
//! boot of the machine.

use crate::prelude::*;
use crate::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use procfs::process::{Stat, all_processes};
use procfs::sys::kernel::random::boot_id;
use serde::{Deserialize, Serialize};
use std::process::Stdio;

/// How long a killed process may take to vanish.
const END: Duration = Duration::from_secs(20);

/// One process, and never another one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Clock ticks since boot.
    started: u64,
    boot: String,
}

impl Process {
    fn running(pid: i32) -> Option<Self> {
        Some(Self { pid, started: stat(pid)?.starttime, boot: boot_id().ok()? })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|it| it.starttime == self.started && it.state != 'Z')
            && boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Kills it if it still runs, and waits until it is gone.
    pub(crate) fn end(&self) -> Result<()> {
        // It may end by itself before it is killed.
        let _ = self.signal(Signal::SIGKILL);
        until(&format!("process {} to end", self.pid), END, || {
            // Reaps it if it is a child of this process.
            let _ = waitpid(Pid::from_raw(self.pid), Some(WaitPidFlag::WNOHANG));
            Ok(if self.is_alive() { Err(anyhow!("it runs")) } else { Ok(()) })
        })
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.is_alive(), "process {} has ended", self.pid);
        let sent = kill(Pid::from_raw(self.pid), signal);
        sent.with_context(|| format!("sending {signal} to process {}", self.pid))
    }

    /// The process that this one started, once there is one.
    pub(crate) fn child(&self) -> Option<Self> {
        children(self.pid).into_iter().find_map(Self::running)
    }

    pub(crate) fn record(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_string(self)?)?)
    }
}

/// Kills the children of this process, and their children.
pub fn end_descendants() {
    end_all(children(Pid::this().as_raw()));
}

fn end_all(pids: Vec<i32>) {
    for pid in pids {
        // After the end of their parent they would have another one.
        let its_own = children(pid);
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        end_all(its_own);
    }
}

/// Starts a program in a session of its own, so that neither Ctrl-C nor a closed terminal reaches it.
pub(crate) fn start_detached(command: &Command, log: &Path) -> Result<Process> {
    let output = File::options().create(true).append(true).open(log)?;
    let errors = output.try_clone()?;
    let mut command = programs::within(Command::new("setsid"), command);
    let child = command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output.into_file())
        .stderr(errors.into_file())
        .spawn()
        .context("starting setsid")?;
    Process::running(child.id().cast_signed()).context("finding the process that was started")
}

/// The process of this record, if the file exists and can be read.
pub(crate) fn recorded(path: &Path) -> Option<Process> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

pub(crate) fn all_recorded(directory: &Path) -> BTreeMap<String, Process> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        Some((entry.file_name().to_string_lossy().into_owned(), recorded(&entry.path())?))
    });
    named.collect()
}

pub(crate) fn with_command_line(fits: impl Fn(&[String]) -> bool) -> Vec<Process> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes
        .filter(|process| process.cmdline().is_ok_and(|words| fits(&words)))
        .filter_map(|process| Process::running(process.pid()))
        .collect()
}

fn children(parent: i32) -> Vec<i32> {
    let stats = all_processes().into_iter().flatten().flatten().filter_map(|it| it.stat().ok());
    stats.filter(|stat| stat.ppid == parent).map(|stat| stat.pid).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    procfs::process::Process::new(pid).ok()?.stat().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_process_is_found_by_its_record_and_ended() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("marker");
        let status = Command::new("mkfifo").arg(&marker).status().unwrap();
        assert!(status.success());
        let mut command = Command::new("sh");
        command.args(["-c", "read line < \"$1\"", "sh"]).arg(&marker);
        let process = start_detached(&command, &directory.path().join("log")).unwrap();
        until("the program to run", Duration::from_secs(5), || {
            let found =
                with_command_line(|it| it.last().is_some_and(|it| marker == *Path::new(it)));
            Ok(if found == [process.clone()] { Ok(()) } else { Err(anyhow!("no")) })
        })
        .unwrap();
        let records = directory.path().join("records");
        fs::create_dir(&records).unwrap();
        process.record(&records.join("record")).unwrap();
        assert_eq!(all_recorded(&records), [("record".to_owned(), process.clone())].into());
        let later = Process { started: process.started + 1, ..process.clone() };
        let rebooted = Process { boot: "another".into(), ..process.clone() };
        assert!(process.is_alive() && !later.is_alive() && !rebooted.is_alive());
        process.end().unwrap();
        assert!(!process.is_alive());
        process.end().unwrap();
    }
}
