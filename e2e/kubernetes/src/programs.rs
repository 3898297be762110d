//! Runs other programs with a time limit; the error of a program that fails has the end of its output.

use crate::progress;
use anyhow::{Context as _, Result, bail, ensure};
use process_control::{ChildExt as _, Control as _};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// The time limit of a program whose output is read: the longest ones make images from packages.
const LIMIT: Duration = Duration::from_mins(15);
/// The time limit of a program that shows its output itself: the longest ones build everything.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// Directories that hold system programs and are not in every user's PATH.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// The full path of a program in PATH or a system directory.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// Runs the command and returns its output; the error of a command that fails has the end of the output.
pub fn run(command: &mut Command) -> Result<Output> {
    feed(command, |_| Ok(()))
}

/// Runs a command that shows its output itself.
pub fn show(command: &mut Command) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("starting {}", describe(command)))?;
    let ended = child.controlled().time_limit(BUILD_LIMIT).terminate_for_timeout().wait();
    let status = in_time(command, BUILD_LIMIT, ended)?;
    ensure!(status.success(), "{} ended with {status}", describe(command));
    Ok(())
}

/// Runs a command, and shows its output when it has ended.
pub fn show_at_the_end(command: &mut Command) -> Result<()> {
    let mut output = tempfile::tempfile().context("making a file for what a program writes")?;
    let same = || output.try_clone().context("opening a file for what a program writes");
    let ended = show(command.stdout(same()?).stderr(same()?));
    output.rewind().context("reading what a program has written")?;
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        progress::print(&String::from_utf8_lossy(&line));
    }
    ended
}

/// `command` as the last words of `wrapper`, which starts it.
pub fn within(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    wrapper
}

/// Like [`run`], with `input` on the command's standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Result<Output> {
    feed(command, |stdin| stdin.write_all(input).context("writing to standard input"))
}

/// Like [`run`], with what `write` writes on the command's standard input.
/// If both fail, the error is that of the command.
pub(crate) fn feed(
    command: &mut Command,
    write: impl FnOnce(&mut dyn Write) -> Result<()> + Send,
) -> Result<Output> {
    feed_within(LIMIT, command, write)
}

fn feed_within(
    limit: Duration,
    command: &mut Command,
    write: impl FnOnce(&mut dyn Write) -> Result<()> + Send,
) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", describe(command)))?;
    let mut stdin = child.stdin.take().context("taking the standard input of a child")?;
    thread::scope(|scope| {
        // In a thread of its own: a program that writes before it has read all of its input would block for ever.
        let writing = scope.spawn(move || write(&mut stdin));
        let ended = child.controlled_with_output().time_limit(limit).terminate_for_timeout().wait();
        let written = writing.join().unwrap_or_else(|panic| resume_unwind(panic));
        let output = check(command, in_time(command, limit, ended)?.into_std_lossy())?;
        written.with_context(|| format!("feeding {}", describe(command)))?;
        Ok(output)
    })
}

/// The result of waiting for the command; an error if its time has passed.
fn in_time<T>(command: &Command, limit: Duration, ended: io::Result<Option<T>>) -> Result<T> {
    let ended = ended.with_context(|| format!("waiting for {}", describe(command)))?;
    let limit = limit.as_secs();
    ended.with_context(|| {
        format!("{}: ended here: it had not ended after {limit} s", describe(command))
    })
}

fn check(command: &Command, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let mut message = String::from_utf8_lossy(&output.stderr).into_owned();
    if message.trim().is_empty() {
        message = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    bail!("{} failed, {}: {}", describe(command), output.status, last_lines(&message, 20));
}

fn describe(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}

pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The last lines of a file, or why there are none.
pub fn tail(path: &Path, count: usize) -> String {
    match std::fs::read(path) {
        Ok(content) => last_lines(&String::from_utf8_lossy(&content), count),
        Err(error) => format!("(no log at {}: {error})", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_talks_while_it_is_fed_gets_everything() {
        let much = vec![b'x'; 1 << 20];
        let output = run_with_input(&mut Command::new("cat"), &much).unwrap();
        assert!(output.stdout == much);
    }
}
