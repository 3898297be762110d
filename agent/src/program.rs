//! `flux-agent program`: the wrapper around the lead's initial program.
//!
//! It writes down when the command started and how it ended. Without that record nobody could tell
//! a command that ran from a broker that ended before: Flux ends with 0 when it is told to stop
//! while it still waits for the quorum.

use crate::exit_status::exit_code;
use crate::output;
use crate::signals::{Signals, asks_to_stop, at};
use crate::timing::fluxtime_line;
use nix::sys::signal::{Signal, kill};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::Instant;

/// Pause before a command that is still there after SIGKILL gets it once more.
const AGAIN: Duration = Duration::from_secs(1);

/// What the wrapper leaves for PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramRecord {
    /// When the command started, by [`monotonic_nanoseconds`].
    pub started_monotonic_nanoseconds: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_monotonic_nanoseconds: Option<u64>,
    /// The code the wrapper passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the command, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl ProgramRecord {
    /// The record at `path`, if there is one.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether the command had ended at `time`, by [`monotonic_nanoseconds`].
    pub fn ended_before(&self, time: Option<u64>) -> bool {
        self.ended_monotonic_nanoseconds.zip(time).is_some_and(|(ended, time)| ended <= time)
    }

    /// Writes the record in one step: a reader sees this one or the one before.
    fn write(&self, path: &Path) -> io::Result<()> {
        let temporary = path.with_extension("json.new");
        fs::write(&temporary, serde_json::to_vec(self)?)?;
        fs::rename(&temporary, path)
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the same in all processes of a machine.
pub fn monotonic_nanoseconds() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|time| u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
        .unwrap_or_default()
}

/// Code that a shell reports for a command that could not be started (POSIX.1-2024, Shell Command
/// Language, 2.8.2): 127 when it was not found, 126 when it could not be executed.
pub fn start_failure_code(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

/// Runs `words`, keeps the record at `path`, and returns the code to end with: the command's own,
/// 128 + N when signal N ended it, 126 or 127 when it could not be started. A command that has not
/// ended when a signal has asked for it and `patience` is over is killed: Flux's cleanup waits for it.
pub async fn run(path: &Path, patience: Option<Duration>, timed: bool, words: &[String]) -> u8 {
    let mut signals = match Signals::register() {
        Ok(signals) => signals,
        Err(error) => {
            output::complain(&format!("take signals: {error}"));
            return flux_contract::Exit::Internal.code();
        }
    };
    let started = monotonic_nanoseconds();
    let mut record = ProgramRecord {
        started_monotonic_nanoseconds: started,
        ended_monotonic_nanoseconds: None,
        exit_code: None,
        signal: None,
    };
    keep(&record, path);
    let code = match run_forwarding(&mut signals, patience, words).await {
        Ok(status) => {
            record.signal = status.signal();
            exit_code(status)
        }
        Err(error) => {
            let program = words.first().map_or("", String::as_str);
            output::complain(&format!("start {program:?}: {error}"));
            start_failure_code(&error).into()
        }
    };
    let ended = monotonic_nanoseconds();
    record.ended_monotonic_nanoseconds = Some(ended);
    record.exit_code = Some(code);
    keep(&record, path);
    if timed {
        let elapsed = Duration::from_nanos(ended.saturating_sub(started));
        output::plain(&fluxtime_line("fluxsubmit", elapsed));
    }
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// A record that cannot be kept is said but stops nobody's work.
fn keep(record: &ProgramRecord, path: &Path) {
    if let Err(error) = record.write(path) {
        output::complain(&format!("write {}: {error}", path.display()));
    }
}

async fn run_forwarding(
    signals: &mut Signals,
    patience: Option<Duration>,
    words: &[String],
) -> io::Result<ExitStatus> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let send = |signal| {
        if let Some(pid) = pid {
            // That the command has just ended is no error.
            let _ = kill(pid, signal);
        }
    };
    let mut kill_at = None;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            taken = signals.next() => {
                send(taken);
                if asks_to_stop(taken) && kill_at.is_none() {
                    kill_at = patience.and_then(|patience| Instant::now().checked_add(patience));
                }
            }
            () = at(kill_at) => {
                output::complain("the command has not ended in its time: killing it");
                send(Signal::SIGKILL);
                kill_at = Some(Instant::now() + AGAIN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_survives_the_round_trip_and_half_a_record_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program.json");
        let record = ProgramRecord {
            started_monotonic_nanoseconds: 12,
            ended_monotonic_nanoseconds: Some(34),
            exit_code: Some(143),
            signal: Some(15),
        };
        record.write(&path).unwrap();
        assert_eq!(ProgramRecord::read(&path), Some(record));
        fs::write(&path, "{\"started").unwrap();
        assert_eq!(ProgramRecord::read(&path), None);
    }

    #[test]
    fn the_clock_runs_forwards() {
        let first = monotonic_nanoseconds();
        assert!(first > 0 && monotonic_nanoseconds() >= first);
    }
}
