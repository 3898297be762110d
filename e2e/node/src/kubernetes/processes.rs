//! Starts processes that outlive this one, remembers which they were, and tells later whether one still
//! runs.
//!
//! A process id alone says little: it may have been given to another process since. So a record also holds
//! when the process started and in which boot of the machine.

use std::{
    fmt, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};

use crate::wait::{Look, until};

/// How long a killed process may take to vanish.
const END: Duration = Duration::from_secs(20);

/// One process, and never another one with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pid: i32,
    /// Field 22 of `/proc/PID/stat`, clock ticks since boot: `proc_pid_stat(5)`.
    started: u64,
    boot: String,
}

impl Process {
    /// The running process of this id.
    pub(crate) fn running(pid: i32) -> Result<Self> {
        let stat = read_stat(pid).with_context(|| format!("no process {pid} runs"))?;
        Ok(Self { pid, started: stat.started, boot: boot_id()? })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it still runs; one that has ended but was not waited for does not.
    pub(crate) fn is_alive(&self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.started == self.started && stat.state != 'Z')
            && boot_id().is_ok_and(|boot| boot == self.boot)
    }

    /// Kills it if it still runs, and waits until it is gone.
    pub(crate) fn end(&self) -> Result<()> {
        let pid = Pid::from_raw(self.pid);
        if self.is_alive() {
            match kill(pid, Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error).context(format!("killing process {pid}")),
            }
        }
        until(&format!("process {pid} to end"), END, || {
            // Collects it where it is a child of this very process; it need not be one.
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            Ok(if self.is_alive() { Look::NotYet("it runs".into()) } else { Look::Ready(()) })
        })
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        anyhow::ensure!(self.is_alive(), "process {} has ended", self.pid);
        let sent = kill(Pid::from_raw(self.pid), signal);
        sent.with_context(|| format!("sending {signal} to process {}", self.pid))
    }

    /// The process that this one started, once there is one.
    pub(crate) fn child(&self) -> Option<Self> {
        let is_child = |pid: &i32| read_stat(*pid).is_some_and(|stat| stat.parent == self.pid);
        let pid = all_pids().into_iter().find(is_child)?;
        Self::running(pid).ok()
    }

    /// Remembers it in a file.
    pub(crate) fn record(&self, path: &Path) -> Result<()> {
        fs::write(path, self.to_string())
            .with_context(|| format!("recording process {} in {}", self.pid, path.display()))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} {} {}", self.pid, self.started, self.boot)
    }
}

impl FromStr for Process {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        let [pid, started, boot] = words[..] else {
            return Err(anyhow!("a process record has three words, this one is {text:?}"));
        };
        let pid = pid.parse().with_context(|| format!("reading the process id {pid:?}"))?;
        let started =
            started.parse().with_context(|| format!("reading the start time {started:?}"))?;
        Ok(Self { pid, started, boot: boot.to_owned() })
    }
}

/// Kills everything that this process has started, and what that has started. That it has ended is no
/// fault.
pub fn end_descendants() {
    let mut ours = vec![Pid::this().as_raw()];
    let mut next = 0;
    while let Some(parent) = ours.get(next).copied() {
        next += 1;
        let is_child = |pid: &i32| read_stat(*pid).is_some_and(|stat| stat.parent == parent);
        ours.extend(all_pids().into_iter().filter(is_child));
    }
    for pid in ours.into_iter().skip(1) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Starts a program in a session of its own, so that neither Ctrl-C nor a closed terminal reaches it.
pub(crate) fn start_detached(program: &Path, arguments: &[String], log: &Path) -> Result<Process> {
    let output = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("opening the log {}", log.display()))?;
    let errors = output.try_clone().with_context(|| format!("opening {}", log.display()))?;
    let child = Command::new("setsid")
        .arg(program)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let pid = i32::try_from(child.id()).context("reading a process id")?;
    Process::running(pid)
}

/// The process that a file remembers, if there is such a file and it can be read.
pub(crate) fn recorded(path: &Path) -> Option<Process> {
    fs::read_to_string(path).ok()?.parse().ok()
}

/// All processes that a directory remembers, by name.
pub(crate) fn all_recorded(directory: &Path) -> Vec<(String, Process)> {
    let paths = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut all: Vec<_> = paths.filter_map(|path| Some((name(&path)?, recorded(&path)?))).collect();
    all.sort_by(|left, right| left.0.cmp(&right.0));
    all
}

/// Running processes whose command line ends with these two words: found even where whoever started them
/// was ended before it could remember them.
pub(crate) fn with_last_words(program: &Path, argument: &Path) -> Vec<Process> {
    let ends_so = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        last_words_are(&line, program, argument)
    };
    all_pids().into_iter().filter(ends_so).filter_map(|pid| Process::running(pid).ok()).collect()
}

fn last_words_are(command_line: &[u8], program: &Path, argument: &Path) -> bool {
    let mut words = command_line.strip_suffix(&[0]).unwrap_or(command_line).rsplit(|b| *b == 0);
    words.next() == Some(argument.as_os_str().as_encoded_bytes())
        && words.next() == Some(program.as_os_str().as_encoded_bytes())
}

fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let id = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(id.trim().to_owned())
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    started: u64,
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name in brackets, in which anything may stand, so fields are counted
/// from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_any_program_name() {
        let line = "42 (a ) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat, Stat { state: 'S', parent: 7, started: 98765 });
        assert_eq!(parse_stat("42 (short) S"), None);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let process = Process { pid: 42, started: 98765, boot: "b-o-o-t".into() };
        assert_eq!(process.to_string().parse::<Process>().unwrap(), process);
    }

    #[test]
    fn a_damaged_record_is_no_process() {
        for text in ["", "42", "42 98765", "x 1 b", "1 2 3 4"] {
            assert!(text.parse::<Process>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_process_of_the_same_id_but_another_start_is_not_ours() {
        let own = Process::running(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!Process { started: own.started + 1, ..own.clone() }.is_alive());
        assert!(!Process { boot: "another".into(), ..own }.is_alive());
    }

    #[test]
    fn a_detached_process_is_found_by_its_last_words_and_ends_when_told() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("marker");
        let script = ["-c", "read line < \"$1\"", "sh"].map(String::from).to_vec();
        let status = Command::new("mkfifo").arg(&marker).status().unwrap();
        assert!(status.success());
        let arguments = [script, vec![marker.display().to_string()]].concat();
        let log = directory.path().join("log");
        let process = start_detached(Path::new("sh"), &arguments, &log).unwrap();
        until("the program to run", Duration::from_secs(5), || {
            let found = with_last_words(Path::new("sh"), &marker);
            Ok(if found == [process.clone()] { Look::Ready(()) } else { Look::NotYet("no".into()) })
        })
        .unwrap();
        process.end().unwrap();
        assert!(!process.is_alive());
        process.end().unwrap();
    }

    #[test]
    fn only_the_two_last_words_count() {
        let line = b"unshare\0--fork\0/b/pause\0/state\0";
        assert!(last_words_are(line, Path::new("/b/pause"), Path::new("/state")));
        assert!(!last_words_are(line, Path::new("/b/pause"), Path::new("/other")));
        assert!(!last_words_are(b"vi\0/state\0", Path::new("/b/pause"), Path::new("/state")));
    }
}
