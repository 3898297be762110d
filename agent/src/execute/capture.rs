//! Running a command for its output.

use super::{Context, StepError};
use crate::children::Running;
use crate::exit_status::end_text;
use crate::signals::Stop;
use crate::step::shown;
use nix::sys::signal::Signal;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};

/// How long a process that was asked to end may take before it is killed: the kubelet gives the
/// whole pod 30 s by default.
const GRACE: Duration = Duration::from_secs(5);

/// What `command`, run as the broker's user, prints on stdout.
pub(super) async fn capture(
    context: &mut Context,
    command: &[String],
) -> Result<String, StepError> {
    let mut started = context.session.broker_command(command);
    started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start =
        |source| StepError::Start { program: shown(&command[..1.min(command.len())]), source };
    let mut running = context.children.spawn(&mut started).map_err(start)?;
    let (stdout, stderr) = (running.stdout(), running.stderr());
    let (ended, output, complaint) =
        tokio::join!(wait_or_stop(&mut context.signals, &mut running), read(stdout), read(stderr));
    let (status, stop) = ended.map_err(start)?;
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

/// Waits for `running`. A signal that asks for an end is passed on to its process group, which is
/// killed when it takes too long.
pub async fn wait_or_stop(
    signals: &mut crate::signals::Signals,
    running: &mut Running,
) -> std::io::Result<(ExitStatus, Option<Stop>)> {
    let mut stop: Option<Stop> = None;
    let mut patience = Instant::now();
    loop {
        tokio::select! {
            status = running.wait() => return Ok((status?, stop)),
            asked = signals.stop() => {
                running.signal_group(asked.0);
                patience = Instant::now() + GRACE;
                stop = Some(asked);
            }
            () = sleep_until(patience), if stop.is_some() => {
                running.signal_group(Signal::SIGKILL);
                patience = Instant::now() + GRACE;
            }
        }
    }
}
