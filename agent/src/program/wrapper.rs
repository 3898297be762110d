//! `flux-agent program`: the wrapper around the lead's initial program.
//!
//! It writes down when the command started and how it ended. Without that record nobody could tell
//! a command that ran from a broker that ended before: Flux ends with 0 when it is told to stop
//! while it still waits for the quorum.

use crate::process::exit_status::{exit_code, start_failure_code};
use crate::process::signals::{Signals, asks_to_stop, at};
use crate::process::terminal::give_terminal;
use crate::program::cleanup;
use crate::program::record::{NotRun, ProgramRecord};
use crate::program::refusal::{self, Newest, Verdict};
use crate::status::timing::{fluxtime_line, monotonic_nanoseconds};
use crate::system::{files, output};
use clap::Args;
use flux_contract::{Exit, shell_syntax};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{AccessFlags, Pid, access};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal};
use std::num::ParseIntError;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

/// Pause between two looks whether the command's process group is empty.
const PAUSE: Duration = Duration::from_millis(50);
/// Pause before a command that is still there after SIGKILL gets it once more.
const AGAIN: Duration = Duration::from_secs(1);
/// How much of what a submission says on stderr is kept, in bytes: Flux's own sentence is the last.
const KEPT: usize = 2048;
/// Most bytes of the sentence that the command may leave about its failure.
const FAILURE_LIMIT: u64 = 16 * 1024;
/// How long the end of a submission's stderr is waited for once the submission has ended: a process
/// that it left behind may hold it open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A command to run and to record.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Program {
    /// Where the record is kept.
    #[arg(long, value_name = "PATH")]
    pub record: PathBuf,
    /// How long it may take to end, with all that is in its process group, once a signal asked for it;
    /// then it is killed, because Flux's cleanup waits for it.
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub patience: Option<Duration>,
    /// Print the `FLUXTIME` line.
    #[arg(long)]
    pub timed: bool,
    /// The `flux` program, where the command is a submission that Flux may refuse.
    #[arg(long, value_name = "PATH")]
    pub flux: Option<String>,
    /// The `flux` program, where its broker has registered no cleanup: that is done when the command has
    /// ended, if it is needed.
    #[arg(long, value_name = "PATH")]
    pub cleanup: Option<String>,
    /// Where the command may leave a sentence about its failure.
    #[arg(long, value_name = "PATH")]
    pub failure: Option<PathBuf>,
    /// A directory that the jobs write their output files to.
    #[arg(long, value_name = "PATH")]
    pub output_directory: Option<PathBuf>,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    pub words: Vec<String>,
}

fn milliseconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_millis)
}

/// Runs `program`, keeps its record, and returns the code to end with: the command's own, 128 + N
/// when signal N ended it, 126 or 127 when it could not be started, and one of [`Exit`] when it is
/// certain that the user's command never ran.
pub(crate) async fn run(program: &Program) -> u8 {
    let signals = Signals::register();
    let signals = signals.inspect_err(|error| output::log_line(&format!("take signals: {error}")));
    let Ok(mut signals) = signals else { return Exit::Internal.code() };
    let mut record = ProgramRecord {
        started_monotonic_nanoseconds: monotonic_nanoseconds(),
        ..ProgramRecord::default()
    };
    if let Some(reason) = program.output_directory.as_deref().and_then(closed) {
        output::log_line(&reason);
        record.not_run = Some(NotRun { exit_code: Exit::Prepare.code(), reason });
        return end(program, record, Exit::Prepare.code().into());
    }
    if let Some(path) = &program.failure {
        // That there is none is what is wanted.
        let _ = fs::remove_file(path);
    }
    let before = match &program.flux {
        Some(flux) => refusal::newest(flux).await,
        None => None,
    };
    record.started_monotonic_nanoseconds = monotonic_nanoseconds();
    keep(&record, &program.record);
    let code = match run_forwarding(&mut signals, program).await {
        Ok(ended) => {
            record.signal = ended.status.signal();
            let code = exit_code(ended.status);
            record.ended_monotonic_nanoseconds = Some(monotonic_nanoseconds());
            if code != 0 && !ended.stopped {
                explain(program, before.as_ref(), &ended, &mut record).await;
            }
            code
        }
        Err(error) => {
            let first = program.words.first().map_or("", String::as_str);
            let text = format!("start {first:?}: {error}");
            output::log_line(&text);
            record.error = Some(text);
            start_failure_code(&error).into()
        }
    };
    let code = record.not_run.as_ref().map_or(code, |not_run| not_run.exit_code.into());
    let code = end(program, record, code);
    if let Some(flux) = &program.cleanup {
        cleanup::register_if_needed(flux).await;
    }
    code
}

/// Completes the record and says how long it took.
fn end(program: &Program, mut record: ProgramRecord, code: i32) -> u8 {
    let ended = *record.ended_monotonic_nanoseconds.get_or_insert_with(monotonic_nanoseconds);
    record.exit_code = Some(code);
    keep(&record, &program.record);
    if program.timed {
        let elapsed = ended.saturating_sub(record.started_monotonic_nanoseconds);
        output::print_stderr(&fluxtime_line("fluxsubmit", Duration::from_nanos(elapsed)));
    }
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Why nothing can be written into `directory`, if that is so. Flux would say it in a job's eventlog.
fn closed(directory: &Path) -> Option<String> {
    let error = access(directory, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    Some(format!(
        "the jobs cannot write their output into {} (logs): {}; give the directory to Flux's user, or \
         name another",
        directory.display(),
        error.desc()
    ))
}

/// Finds out why a command failed: whether it ever ran, and what is known besides its code.
async fn explain(
    program: &Program,
    before: Option<&Newest>,
    ended: &End,
    record: &mut ProgramRecord,
) {
    let code = exit_code(ended.status);
    let verdict = match (&program.flux, before) {
        (Some(flux), Some(before)) => refusal::verdict(flux, before).await,
        (Some(_) | None, _) => None,
    };
    let refused = |reason| NotRun { exit_code: Exit::FluxRefused.code(), reason };
    match verdict {
        Some(Verdict::NotSubmitted) => {
            let text = format!("Flux did not take the command (exit code {code})");
            record.not_run = Some(refused(with(text, ended.last_line())));
        }
        Some(Verdict::NotStarted(reason)) => {
            record.not_run = Some(refused(format!("Flux did not start the command: {reason}")));
        }
        Some(Verdict::Started(note)) => {
            record.error = note.map(|note| with(note, shell_hint(&program.words)));
        }
        None => {}
    }
    let left = || failure(program.failure.as_ref()?);
    record.error = record.error.take().or_else(left).or_else(|| meaning(code).map(str::to_owned));
}

/// The sentence that the command has left at `path`.
fn failure(path: &Path) -> Option<String> {
    String::from_utf8(files::read_bounded(path, FAILURE_LIMIT).ok()?).ok()
}

fn with(text: String, more: Option<String>) -> String {
    match more {
        Some(more) => format!("{text}: {more}"),
        None => text,
    }
}

/// What shells mean by a code (POSIX.1-2024, Shell Command Language, 2.8.2).
const fn meaning(code: i32) -> Option<&'static str> {
    match code {
        126 => Some("the command, or a program that it calls, could not be executed"),
        127 => Some("the command, or a program that it calls, was not found"),
        _ => None,
    }
}

/// Why a command is run by `sh`, which the image may lack, if it is.
fn shell_hint(words: &[String]) -> Option<String> {
    let [.., sh, option, text] = words else { return None };
    let syntax = shell_syntax(text).filter(|_| sh == "sh" && option == "-c")?;
    Some(format!(
        "the command is run by sh because of its {syntax}; quote that, or use an image with a shell"
    ))
}

/// A record that cannot be kept is said but stops nobody's work.
fn keep(record: &ProgramRecord, path: &Path) {
    if let Err(error) = record.write(path) {
        output::log_line(&format!("write {}: {error}", path.display()));
    }
}

/// How the program ended.
struct End {
    status: ExitStatus,
    /// A signal had asked it to.
    stopped: bool,
    /// The last of what a submission said on stderr.
    said: Vec<u8>,
}

impl End {
    /// The last line that a submission said, which is Flux's reason where it refused.
    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.said);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        line.map(str::to_owned)
    }
}

/// The command as it is started, in a process group of its own: a signal then reaches all of it, and
/// nobody else.
fn prepared(program: &Program) -> io::Result<Command> {
    let (first, arguments) =
        program.words.split_first().ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
    let mut command = Command::new(first);
    command.args(arguments).process_group(0);
    if program.cleanup.is_some() {
        // An instance of Flux within a job has a cleanup of its own.
        command.env_remove(cleanup::DISABLE.0);
    }
    // A terminal is the submission's own: it shows its progress there.
    if program.flux.is_some() && !io::stderr().is_terminal() {
        command.stderr(Stdio::piped());
    }
    Ok(command)
}

async fn run_forwarding(signals: &mut Signals, program: &Program) -> io::Result<End> {
    let mut child = prepared(program)?.spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let group = Pid::from_raw(pid.ok_or_else(|| io::Error::other("it has no process id"))?);
    give_terminal(group);
    let mut said = tokio::spawn(pass_on(child.stderr.take()));
    let (mut stopped, mut killed, mut kill_at) = (false, false, None);
    let mut ended = None;
    let status = loop {
        if let Some(status) = ended
            && (!stopped || killed || killpg(group, None).is_err())
        {
            break status;
        }
        tokio::select! {
            status = child.wait(), if ended.is_none() => ended = Some(status?),
            // The rest of its group are no children of this process, whose end would be reported to it.
            () = sleep(PAUSE), if ended.is_some() => {}
            taken = signals.next() => {
                // That all of it has just ended is no error.
                let _ = killpg(group, passed_on(taken));
                if asks_to_stop(taken) && !stopped {
                    stopped = true;
                    kill_at = program.patience.and_then(|it| Instant::now().checked_add(it));
                }
            }
            () = at(kill_at) => {
                output::log_line("the command has not ended in its time: killing it");
                let _ = killpg(group, Signal::SIGKILL);
                killed = true;
                kill_at = Some(Instant::now() + AGAIN);
            }
        }
    };
    let said = timeout(LAST_WORDS, &mut said).await;
    Ok(End { status, stopped, said: said.ok().and_then(Result::ok).unwrap_or_default() })
}

/// What the command gets for a signal that this process has `taken`. Flux ends its initial program with
/// SIGHUP (flux-core, `broker/runat.c`), whatever the broker itself got; programs that run in pods save
/// their state at SIGTERM.
fn passed_on(taken: Signal) -> Signal {
    if taken == Signal::SIGHUP { Signal::SIGTERM } else { taken }
}

/// Passes on what comes from `source` to stderr and returns the last of it.
async fn pass_on(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let own = io::stderr().as_fd().try_clone_to_owned().map(fs::File::from);
    let (Some(mut source), Ok(own)) = (source, own) else { return Vec::new() };
    let (mut stderr, mut buffer) = (tokio::fs::File::from_std(own), vec![0; 16 * 1024]);
    let mut last = Vec::new();
    while let Ok(length) = source.read(&mut buffer).await
        && length > 0
    {
        // That nobody reads the log ends no command.
        let _ = stderr.write_all(&buffer[..length]).await;
        let _ = stderr.flush().await;
        last.extend_from_slice(&buffer[..length]);
        last.drain(..last.len().saturating_sub(KEPT));
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_is_missing_is_explained_by_what_asked_for_it() {
        let hint = |words: &[&str]| {
            shell_hint(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(hint(&["flux", "submit", "sh", "-c", "echo $A"]).unwrap().contains("`$`"));
        assert_eq!(hint(&["flux", "submit", "sh", "-c", "echo A"]), None, "the user's own sh");
        assert_eq!(hint(&["echo", "$A"]), None);
    }
}
