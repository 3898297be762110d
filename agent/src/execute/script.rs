//! A text of the user as a file for a shell, and its end: as an argument it would be limited to 128 KiB
//! (execve(2), `MAX_ARG_STRLEN`), and be seen by all who see the process.

use crate::execute::error::{StepError, failed};
use crate::plan::budget::Limits;
use crate::process::children::Running;
use crate::process::signals::{Signals, Stop};
use crate::system::files;
use nix::sys::signal::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// A script in a private directory, gone when this is.
#[derive(Debug)]
pub(crate) struct PrivateScript(PathBuf);

impl PrivateScript {
    /// Writes `text` to `directory`, which is closed to others, under the `name` that complaints of the
    /// shell will show.
    pub(crate) fn write(directory: &Path, name: &str, text: &str) -> Result<Self, StepError> {
        let path = directory.join(name);
        files::write(&path, text.as_bytes(), 0o600, None).map_err(failed("write", &path))?;
        Ok(Self(path))
    }

    /// Program and arguments that run it with `shell`.
    pub(crate) fn command(&self, shell: &Path) -> [String; 2] {
        [shell.display().to_string(), self.0.display().to_string()]
    }
}

impl Drop for PrivateScript {
    fn drop(&mut self) {
        // That it stays is no harm: nobody else can read it.
        let _ = files::remove(&self.0);
    }
}

/// Waits for `running`. When a stop is asked for, its process group gets the signal and is killed as
/// `limits` say. Returns how it ended, and the stop if it was asked to end for it. What cannot be
/// killed is left, as if it had been.
pub(crate) async fn wait_or_stop(
    signals: &mut Signals,
    running: &mut Running,
    limits: Limits,
) -> io::Result<(ExitStatus, Option<Stop>)> {
    if let Some(status) = signals.within(limits.ask, running.wait()).await {
        return Ok((status?, None));
    }
    let stop = signals.stopped_by();
    running.signal_group(stop.map_or(Signal::SIGTERM, Stop::signal));
    if let Some(status) = signals.within(limits.kill, running.wait()).await {
        return Ok((status?, stop));
    }
    running.signal_group(Signal::SIGKILL);
    let status = signals.within(limits.kill + limits.patience, running.wait()).await;
    Ok((status.unwrap_or_else(|| Ok(ExitStatus::from_raw(Signal::SIGKILL as i32)))?, stop))
}
