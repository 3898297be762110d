//! `flux-agent run --container NAME`: a container beside the runner, whose commands find Flux.

use crate::execute::hook::{
    NO_SHELL, not_started, private_script, run_hook, strict_failure, wait_or_stop, with_shell,
};
use crate::execute::run::Run;
use crate::failure::{Failure, Result, failed};
use crate::pid1::outcome::{sidecar_outcome, success};
use crate::plan::decide::{client_environment, shell, sidecar_hook};
use crate::plan::facts::MEMORY;
use crate::plan::grace_period::GracePeriod;
use crate::process::signals::Signals;
use crate::status::runner_lock::{RunnerState, runner_state};
use crate::system::environment::Change;
use crate::system::files;
use crate::system::root::Root;
use flux_contract::{AgentConfig, Exit, Install, SidecarConfig, TerminationMessage};
use flux_protocol::client::{BrokerAddress, SocketError};
use nix::sys::signal::Signal;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

const PAUSE: Duration = Duration::from_millis(200);
/// A command that fails so long before the end of Flux is taken to have failed because of that: on a worker, requests fail
/// before its own broker ends.
const FORESIGHT: Duration = Duration::from_secs(5);
/// Most bytes of the marker, in which the runner leaves its exit code.
const CODE_LIMIT: u64 = 16;
/// States of a broker that has not begun to end (flux-core, RFC 51).
const GOES_ON: [&str; 5] = ["join", "config-sync", "init", "quorum", "run"];

/// Runs sidecar `name` and returns how it ended: with its command's code, or with 0 when the runner has succeeded. Where
/// the runner has failed the sidecar fails as well: the kubelet then starts both again, or none (`restartPolicy`). A sidecar
/// whose command succeeds before the runner stays: a pod with an ended container is not ready, though its broker is. A
/// command that fails ends its container, which shows the failure.
pub(crate) async fn run(run: &mut Run, name: &str) -> Result<TerminationMessage> {
    let config = &run.config;
    let sidecar = config.sidecars.get(name).cloned().ok_or_else(|| {
        let configured: Vec<&String> = config.sidecars.keys().collect();
        let text = format!("no sidecar {name:?} is configured, only {configured:?}");
        Failure::new(Exit::Config, text)
    })?;
    run.grace = GracePeriod::of_sidecar(config, &sidecar);
    let environment = client_environment(config, &run.facts)?;
    let patience = Duration::from_secs(config.network.lead_deadline_seconds);
    let runner = Runner {
        expected_until: Instant::now().checked_add(patience),
        socket: run.root.at(&environment.socket),
        complete: run.root.at(config.layout.complete_marker()),
        lock: run.root.at(config.layout.runner_lock()),
    };
    // Flux's own commands refuse to run without the variable, whether the directory exists or not.
    let home = Change::fallback("HOME", config.layout.home());
    // A directory of this container alone, which is removed when this value is dropped.
    let memory = run.root.at(MEMORY);
    let private = tempfile::Builder::new().prefix("flux-agent-").tempdir_in(&memory);
    let private = private.map_err(failed("make a directory in", &memory))?;
    run.report_file = private.path().join("hook-environment");
    hook(run, "commands.init", sidecar.init.as_ref()).await?;
    run.session.change(&environment.changes);
    run.session.change(&[home]);
    hook(run, "commands.servicePre", sidecar.service_pre.as_ref()).await?;
    let ended = run_command(run, &sidecar, &runner).await?;
    if let Err(error) = hook(run, "commands.post", sidecar.post.as_ref()).await {
        // The code stays, as the runner's does.
        run.log.error(&error.to_string());
    }
    if ended.exit_code != 0 {
        return Ok(ended);
    }
    run.log.info("done: staying until the runner has finished");
    // A stop ends the wait: the sidecar's own work is done.
    let end = run.signals.unless_stopped(runner.end()).await;
    Ok(end.ok().filter(|end| *end != RunnerEnd::Finished).map_or(ended, Into::into))
}

async fn hook(run: &mut Run, name: &'static str, script: Option<&String>) -> Result<()> {
    match sidecar_hook(&run.config, &run.facts, name, script) {
        Some(hook) => run_hook(run, &hook).await,
        None => Ok(()),
    }
}

/// Waits until the runner has put the view in its place, where a sidecar cannot write.
pub(crate) async fn await_view(
    config: &AgentConfig,
    root: &Root,
    signals: &mut Signals,
) -> Result<()> {
    if !config.view.enabled || config.install == Install::Copy {
        return Ok(());
    }
    let marker = root.at(config.layout.view_done_marker());
    let lock = root.at(config.layout.runner_lock());
    // The state is read first: a runner that has ended may have made the marker before.
    let there = until(async || {
        let is_gone = runner_state(&lock) == RunnerState::Gone;
        let there = marker.exists().then_some(Ok(()));
        there.or_else(|| is_gone.then(|| Err(RunnerEnd::Gone.into())))
    });
    signals.unless_stopped(there).await?
}

/// Waits until `look` has a result.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    loop {
        if let Some(found) = look().await {
            return found;
        }
        sleep(PAUSE).await;
    }
}

async fn run_command(
    run: &mut Run,
    sidecar: &SidecarConfig,
    runner: &Runner,
) -> Result<TerminationMessage> {
    if sidecar.wait_for_socket {
        run.log.info(&format!("waiting for the broker's socket {}", runner.socket.display()));
        let waited = async {
            tokio::select! {
                end = runner.end() => Some(end),
                () = until(async || listens(&runner.socket).await.then_some(())) => None,
            }
        };
        if let Some(end) = run.signals.unless_stopped(waited).await? {
            run.log.info(&end.to_string());
            return Ok(end.into());
        }
    }
    let Some(command) = &sidecar.command else { return Ok(success()) };
    let shell = shell(&run.config, &run.facts);
    let shell = shell.ok_or_else(|| strict_failure("command", NO_SHELL))?;
    let directory = run.report_file.parent().unwrap_or(&run.report_file);
    let script = private_script(directory, "command", command)?;
    let mut started = run.session.command(&with_shell(&shell, &script));
    run.check_working_directory(Duration::ZERO).await?;
    let failed = |error: io::Error| strict_failure("command", &not_started(&shell, &error));
    let mut running = run.children.spawn(&mut started).map_err(failed)?;
    let timeouts = run.grace.of_main_process();
    let end = tokio::select! {
        // The failure of a command counts also when the runner ends at the same time.
        biased;
        (status, stop) = wait_or_stop(&mut run.signals, &mut running, timeouts) => {
            let ended = sidecar_outcome(status, stop);
            return Ok(match stop {
                Some(_) => ended,
                None => unless_flux_ended(run, sidecar, runner, ended).await,
            });
        }
        end = runner.end() => end,
    };
    run.log.info(&format!("{end}: ending the command"));
    running.signal_group(Signal::SIGTERM);
    // The command has the time of a stop.
    if timeout(timeouts.kill, running.wait()).await.is_err() {
        run.log.warn("the command has not ended in its time: killing it");
        running.signal_group(Signal::SIGKILL);
        let _ = timeout(timeouts.give_up, running.wait()).await;
    }
    Ok(end.into())
}

/// `ended`, unless the command failed because Flux was ending: clients of a broker see that before the runner leaves its
/// marker.
async fn unless_flux_ended(
    run: &mut Run,
    sidecar: &SidecarConfig,
    runner: &Runner,
    ended: TerminationMessage,
) -> TerminationMessage {
    let Some(error) = &ended.last_error else { return ended };
    run.log.error(error);
    if !sidecar.wait_for_socket {
        return ended;
    }
    match run.signals.unless_stopped(runner.ends()).await {
        Ok(Some(RunnerEnd::Finished)) => {
            run.log.info("the runner has finished: so had the command, whatever its exit code");
            success()
        }
        Ok(Some(end @ RunnerEnd::Failed(_))) => end.into(),
        Ok(Some(RunnerEnd::Gone) | None) | Err(_) => ended,
    }
}

/// The runner of this pod, as another container sees it.
struct Runner {
    /// A runner that has left no sign until then has ended, or cannot start. A worker waits as long for its lead.
    expected_until: Option<Instant>,
    socket: PathBuf,
    complete: PathBuf,
    lock: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum RunnerEnd {
    #[error("the runner has finished")]
    Finished,
    #[error("the runner has ended with exit code {0}")]
    Failed(i32),
    /// It was killed, or could not start.
    #[error("the runner is gone without having finished: its container's state says why")]
    Gone,
}

impl From<RunnerEnd> for Failure {
    fn from(end: RunnerEnd) -> Self {
        Self::new(Exit::Broker, end.to_string())
    }
}

impl From<RunnerEnd> for TerminationMessage {
    fn from(end: RunnerEnd) -> Self {
        if end == RunnerEnd::Finished { success() } else { Failure::from(end).into() }
    }
}

impl Runner {
    async fn end(&self) -> RunnerEnd {
        until(async || self.present_end()).await
    }

    fn present_end(&self) -> Option<RunnerEnd> {
        // The lock is read first: the runner holds it until the marker is there. While it is held a marker is that of an
        // earlier runner, which the new one is about to remove.
        let state = runner_state(&self.lock);
        if state == RunnerState::Alive {
            return None;
        }
        let Ok(code) = files::read_bounded(&self.complete, CODE_LIMIT) else {
            let late = self.expected_until.is_some_and(|until| Instant::now() >= until);
            return (state == RunnerState::Gone || late).then_some(RunnerEnd::Gone);
        };
        Some(match String::from_utf8_lossy(&code).trim().parse() {
            Ok(0) | Err(_) => RunnerEnd::Finished,
            Ok(code) => RunnerEnd::Failed(code),
        })
    }

    /// How it ends, or `None` when its broker goes on.
    async fn ends(&self) -> Option<RunnerEnd> {
        let deadline = Instant::now() + FORESIGHT;
        until(async || {
            let end = self.present_end();
            let is_settled = end.is_some() || Instant::now() >= deadline && self.goes_on().await;
            is_settled.then_some(end)
        })
        .await
    }

    async fn goes_on(&self) -> bool {
        let broker = BrokerAddress { socket: self.socket.clone(), owner: None };
        match broker.state().await {
            Ok(state) => GOES_ON.contains(&state.as_str()),
            // A broker that refuses to answer other users is there.
            Err(error) => {
                matches!(error, SocketError::Refused { .. } | SocketError::Failed { .. })
            }
        }
    }
}

/// Whether a broker listens at the socket: one that was killed leaves its socket behind.
async fn listens(path: &Path) -> bool {
    match UnixStream::connect(path).await {
        Ok(_) => true,
        // It lets only its owner in, or its queue is full.
        Err(error) => matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::WouldBlock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, listen};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_marker_that_is_no_regular_file_is_ignored() {
        let volume = tempfile::tempdir().unwrap();
        let at = |name: &str| volume.path().join(name);
        let runner = Runner {
            expected_until: None,
            socket: at("socket"),
            complete: at("complete"),
            lock: at("lock"),
        };
        nix::unistd::mkfifo(&runner.complete, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(runner.present_end(), None, "a pipe");
        std::fs::rename(&runner.complete, &runner.lock).unwrap();
        assert_eq!(runner.present_end(), None, "a pipe in the place of the lock");
        std::fs::write(&runner.complete, "7\n").unwrap();
        assert_eq!(runner.present_end(), Some(RunnerEnd::Failed(7)));
    }

    #[tokio::test]
    async fn a_full_socket_has_a_listener() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path().join("local");
        assert!(!listens(&path).await);
        let hung = UnixListener::bind(&path).unwrap();
        listen(&hung, Backlog::new(0).unwrap()).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        assert!(!waiting.is_empty() && listens(&path).await);
        drop(hung);
        assert!(path.exists() && !listens(&path).await);
    }
}
