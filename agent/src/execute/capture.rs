//! Running a command for its output.

use crate::execute::context::Context;
use crate::execute::error::StepError;
use crate::plan::budget::Limits;
use crate::process::children::Running;
use crate::process::exit_status::end_text;
use crate::process::signals::{Signals, Stop, at};
use crate::system::words::shown;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What `command`, run as the broker's user, prints on stdout.
pub(super) async fn capture(
    context: &mut Context,
    command: &[String],
) -> Result<String, StepError> {
    let mut started = context.session.broker_command(command);
    started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = shown(&command[..1.min(command.len())]);
    let mut running = context.children.spawn(&mut started).or_else(|source| {
        context.session.check_working_directory()?;
        Err(StepError::Start { program, source })
    })?;
    let (stdout, stderr) = (running.stdout(), running.stderr());
    let limits = context.budget.for_main();
    let wait = wait_or_stop(&mut context.signals, &mut running, limits);
    let (ended, output, complaint) = tokio::join!(wait, read(stdout), read(stderr));
    let (status, stop) = ended.map_err(StepError::no_status)?;
    if let Some(source) = stop {
        return Err(StepError::Stopped { source });
    }
    if status.success() {
        return Ok(output);
    }
    let output = complaint.trim().to_owned();
    Err(StepError::Command { command: shown(command), end: end_text(status), output })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // A broken pipe ends the text; the exit status tells the rest.
        let _ = stream.read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for `running`. When a stop is asked for, its process group gets the signal and is killed as
/// `limits` say. Returns how it ended, and the stop if it was asked to end for it. What cannot be
/// killed is left, as if it had been.
pub(crate) async fn wait_or_stop(
    signals: &mut Signals,
    running: &mut Running,
    limits: Limits,
) -> std::io::Result<(ExitStatus, Option<Stop>)> {
    let mut end = End::Running;
    let mut asked = None;
    loop {
        let after = match end {
            End::Running => limits.ask,
            End::Asked => limits.kill,
            End::Killed => limits.kill + limits.patience,
        };
        let next = signals.stopping_since().map(|since| since + after);
        let first = signals.stopped_by();
        tokio::select! {
            status = running.wait() => return Ok((status?, asked)),
            stop = signals.stop() => {
                if asked.is_some() {
                    running.signal_group(stop.signal());
                }
            }
            () = at(next) => end = match end {
                End::Running => {
                    asked = first;
                    running.signal_group(first.map_or(Signal::SIGTERM, Stop::signal));
                    End::Asked
                }
                End::Asked => {
                    running.signal_group(Signal::SIGKILL);
                    End::Killed
                }
                End::Killed => return Ok((ExitStatus::from_raw(Signal::SIGKILL as i32), asked)),
            },
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Running,
    Asked,
    Killed,
}
