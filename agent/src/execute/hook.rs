//! Scripts of the user, which may change what later processes inherit.
//!
//! What a script exports, unsets, sources or changes directory to, and what it sets by `ulimit` and `umask`, holds for
//! every later step, as if all of a run were one shell. The shell reports it from an `EXIT` trap that is set before the
//! script: so it also reports when the script calls `exit` or fails under `set -e`, and keeps the script's exit code. A
//! script that sets its own `EXIT` trap, or ends by `exec`, does not report: the log has a warning, and the environment
//! stays.

use crate::execute::run::Run;
use crate::failure::{Failure, Result, failed};
use crate::plan::grace_period::StopTimeouts;
use crate::plan::step::Hook;
use crate::process::children::Running;
use crate::process::exit_status::end_text;
use crate::process::signals::{Signals, Stop};
use crate::status::file::PRIVATE_MODE;
use crate::system::environment::Report;
use crate::system::files;
use crate::system::subcommand::{ENV, own_program};
use crate::system::words::quoted;
use flux_contract::Exit;
use nix::sys::signal::Signal;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tempfile::{Builder, TempPath};

/// The hook that follows the command. Its output is in the log of a quiet run as well: people print results there, and the
/// tests of the Go operator compare such a log. A stop does not end this hook: it is a part of the stop.
const LAST: &str = "commands.post";
pub(crate) const NO_SHELL: &str = "cannot run: neither the image nor the view has a shell";
/// Most bytes of a report: an environment has 6 MiB at most (execve(2)). Jobs of the container's own user may write in
/// its directory.
const REPORT_LIMIT: u64 = 8 << 20;

/// Runs `hook` as the container's own user. A failure is an error in a strict run and a warning otherwise.
pub(crate) async fn run_hook(run: &mut Run, hook: &Hook) -> Result<()> {
    let Some(shell) = &hook.shell else { return refuse(run, hook.name, NO_SHELL) };
    let report_file = run.root.at(&run.report_file);
    let private = report_file.parent().unwrap_or(&report_file);
    files::make_directory(private, PRIVATE_MODE, None)
        .and_then(|()| files::remove(&report_file))
        .map_err(failed("prepare", &report_file))?;
    let script = reporting(&own_program(), &report_file, &hook.script);
    let script = private_script(private, hook.name, &script)?;
    let mut command = run.session.command(&with_shell(shell, &script));
    command.stdin(Stdio::null());
    let is_last = hook.name == LAST;
    if run.config.logging.quiet && !is_last {
        command.stdout(Stdio::null());
    }
    let share = if is_last { run.grace.all } else { Duration::ZERO };
    run.check_working_directory(share).await?;
    let mut running = match run.children.spawn(&mut command) {
        Ok(running) => running,
        Err(error) => return refuse(run, hook.name, &not_started(shell, &error)),
    };
    let timeouts = if is_last { run.grace.of_post_hook() } else { run.grace.of_main_process() };
    let (status, stop) = wait_or_stop(&mut run.signals, &mut running, timeouts).await;
    let reported = take_report(run, &report_file);
    let name = hook.name;
    match stop {
        Some(_) if is_last => {
            let late = "was ended: it takes longer than the pod's grace period leaves it; raise \
                        terminationGracePeriodSeconds in spec.pod.overlay";
            return Err(Failure::new(Exit::Hook, format!("hook {name} {late}")));
        }
        Some(stop) => return Err(stop.into()),
        None if !status.success() => return refuse(run, name, &end_text(status)),
        None => {}
    }
    if !reported {
        run.log.warn(&format!(
            "hook {name} did not report its environment (it set an EXIT trap of its own, called exec, or removed its working directory): what it exported or set is not carried over"
        ));
    }
    Ok(())
}

fn refuse(run: &Run, hook: &str, end: &str) -> Result<()> {
    if run.config.logging.strict {
        return Err(strict_failure(hook, end));
    }
    run.warned(&format!("hook {hook} {end}; going on because logging.strict is not set"));
    Ok(())
}

pub(crate) fn not_started(shell: &Path, error: &io::Error) -> String {
    format!("cannot run: start {}: {error}", shell.display())
}

pub(crate) fn strict_failure(hook: &str, end: &str) -> Failure {
    let text = format!("hook {hook} {end}; it ends the run, as logging.strict is not false");
    Failure::new(Exit::Hook, text)
}

/// `script` behind a trap that reports. The script comes last, so that no text in it, not even an open quote, changes the
/// trap.
fn reporting(agent: &Path, report_file: &Path, script: &str) -> String {
    let [agent, file] = [agent, report_file].map(|path| quoted(&path.display().to_string()));
    let trap = quoted(&format!("{agent} {ENV} --to {file}"));
    format!("trap {trap} EXIT\n{script}")
}

/// Whether there was a report, which is then applied to the session.
fn take_report(run: &mut Run, file: &Path) -> bool {
    let report = files::read_bounded(file, REPORT_LIMIT).ok();
    let report = report.and_then(|bytes| Report::from_bytes(&bytes));
    // It may hold secrets of the user; it is private, and gone as soon as it was read.
    let _ = files::remove(file);
    report.map(|report| run.session.apply(report)).is_some()
}

/// Writes a text of the user for a shell to `directory`, which is closed to others, under the `name` that error messages of
/// the shell will show. The file is removed when the result is dropped. As an argument the text would be limited to 128 KiB
/// (execve(2), `MAX_ARG_STRLEN`), and be seen by all who see the process.
pub(crate) fn private_script(directory: &Path, name: &str, text: &str) -> Result<TempPath> {
    let path = directory.join(name);
    let write = || {
        // One that is left was of a run that was killed.
        files::remove(&path)?;
        let mut file = Builder::new().prefix(name).rand_bytes(0).tempfile_in(directory)?;
        file.write_all(text.as_bytes())?;
        Ok(file.into_temp_path())
    };
    write().map_err(failed("write", &path))
}

pub(crate) fn with_shell(shell: &Path, script: &Path) -> [String; 2] {
    [shell, script].map(|path| path.display().to_string())
}

/// Waits for `running`, whose process group gets the signals of the user. At a stop, the group gets the signal of that and
/// is killed as `timeouts` have it. The result is how it ended, and the stop if it was asked to end for it. A process that
/// cannot be killed is left, as if it had been.
pub(crate) async fn wait_or_stop(
    signals: &mut Signals,
    running: &mut Running,
    timeouts: StopTimeouts,
) -> (ExitStatus, Option<Stop>) {
    let StopTimeouts { term, kill, give_up } = timeouts;
    let send = running.group_sender();
    let pass_on = |signal| {
        send(signal);
        true
    };
    if let Some(status) = signals.within_passing_on(term, running.wait(), pass_on).await {
        return (status, None);
    }
    let stop = signals.stopped_by();
    send(stop.map_or(Signal::SIGTERM, Stop::signal));
    if let Some(status) = signals.within_passing_on(kill, running.wait(), pass_on).await {
        return (status, stop);
    }
    send(Signal::SIGKILL);
    let status = signals.within(kill + give_up, running.wait()).await;
    (status.unwrap_or_else(|| ExitStatus::from_raw(Signal::SIGKILL as i32)), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_comes_last_and_unchanged_behind_the_trap() {
        let text = reporting(Path::new("/mnt/flux/bin/flux-agent"), Path::new("/a b/c"), "cd 'x");
        assert_eq!(text, "trap \"/mnt/flux/bin/flux-agent env --to '/a b/c'\" EXIT\ncd 'x");
    }
}
