//! The lead's command: a child of PID 1 that is started, as Flux's user, once the broker is in state `run`.

use crate::failure::Failure;
use crate::flux::client::{FluxClient, register_cleanup};
use crate::flux::failed_task::failed_task;
use crate::flux::job_numbers::job_numbers;
use crate::flux::refusal::{self, MOST_JOBS, Verdict};
use crate::plan::step::LeadCommand;
use crate::plan::variables::DISABLE_JOB_CLEANUP;
use crate::process::children::Running;
use crate::process::exit_status::{exit_code, start_failure_code};
use crate::process::orphans::members;
use crate::process::signals::sleep_until;
use crate::process::terminal::give_terminal;
use crate::status::timing::fluxtime_line;
use crate::system::files;
use crate::system::output::{self, Log, chain};
use crate::system::words::shown;
use flux_contract::{Exit, FailedTask, JobNumbers, shell_syntax};
use flux_protocol::client::job_manager;
use flux_protocol::job_id;
use nix::sys::signal::{Signal, killpg};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, iter};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

const GROUP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pause before a command that SIGKILL has not ended gets another one.
const SIGKILL_INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes of a submission's stderr that are kept: Flux's own sentence is the last. The termination message has room
/// for half of them.
const STDERR_LIMIT: usize = 2048;
/// Most bytes of the error that the command may leave in a file.
const ERROR_LIMIT: u64 = 16 * 1024;
/// How long the end of a submission's stderr is waited for once the submission has ended: a process
/// that it left behind may hold it open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);

/// Variables that a broker keeps from its children (flux-core, `broker/runat.c`): they are those of an instance around it.
/// One that ends with `_` stands for all that begin so.
const OF_OTHER_INSTANCES: [&str; 9] = [
    "FLUX_JOB_",
    "FLUX_ENCLOSING_ID",
    "FLUX_TASK_",
    "FLUX_KVS_NAMESPACE",
    "FLUX_PROXY_REMOTE",
    "PMI_",
    "PMIX_",
    "SLURM_",
    "NOTIFY_SOCKET",
];

/// The signals that `flux job attach` passes on to a job (flux-core 0.73, `attach_fwd_signals` in `src/cmd/job/attach.c`).
const OF_JOBS: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGALRM, Signal::SIGUSR1, Signal::SIGUSR2];

/// How the messages of `flux job attach` begin, in the stderr of the tasks that it passes on.
const FLUX_PREFIX: &str = "flux-job: ";

#[derive(Debug, Clone)]
pub(crate) struct CommandEnd {
    pub ended: Instant,
    /// Its own code, 128 + N when signal N ended it, 126 or 127 when it could not be started; `None` when
    /// it was killed because its broker had failed.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why the user's command never ran, where that is certain.
    pub not_run: Option<Failure>,
    pub error: Option<String>,
    /// Flux's id of its job, if it was one, and of that the task that failed.
    pub job: Option<String>,
    pub failed_task: Option<FailedTask>,
    /// The end of the stderr of a submission that failed.
    pub output: Option<String>,
    /// The jobs that the instance had then.
    pub jobs: Option<JobNumbers>,
}

impl CommandEnd {
    /// An end at this moment.
    pub(super) fn new(exit_code: i32, signal: Option<i32>) -> Self {
        Self {
            ended: Instant::now(),
            exit_code: Some(exit_code),
            signal,
            not_run: None,
            error: None,
            job: None,
            failed_task: None,
            output: None,
            jobs: None,
        }
    }
}

/// A signal for the command, which is sent because its broker has ended, or is not.
struct SignalRequest {
    signal: Signal,
    broker_ended: bool,
}

pub(crate) struct RunningCommand {
    requests: mpsc::UnboundedSender<SignalRequest>,
    end: Pin<Box<dyn Future<Output = CommandEnd> + Send>>,
}

impl RunningCommand {
    pub(crate) fn signal(&self, signal: Signal) {
        // A command that has just ended needs none.
        let _ = self.requests.send(SignalRequest { signal, broker_ended: false });
    }

    /// Its end, when everything that follows it is done. May be called again when it was interrupted.
    pub(crate) async fn end(&mut self) -> CommandEnd {
        self.end.as_mut().await
    }

    /// Its end without its broker, which `failed` or was shut down.
    pub(crate) async fn end_without_broker(&mut self, failed: bool) -> CommandEnd {
        let signal = if failed { Signal::SIGKILL } else { Signal::SIGTERM };
        let _ = self.requests.send(SignalRequest { signal, broker_ended: true });
        let end = self.end().await;
        CommandEnd { exit_code: end.exit_code.filter(|_| !failed), ..end }
    }
}

pub(crate) struct CommandRun {
    pub client: FluxClient,
    pub command: LeadCommand,
    /// How long it has to end, with its whole process group, after a signal for that.
    pub kill_after: Duration,
    /// How long its end is waited for after SIGKILL: a process that waits in the kernel ends late, or never.
    pub give_up_after: Duration,
    pub log: Log,
    pub timed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// It was asked to end, and is killed at this time.
    Stopping {
        kill_at: Option<Instant>,
    },
    /// It was sent SIGKILL, which is repeated. Its end is not waited for after `give_up_at`.
    Killed {
        again_at: Instant,
        give_up_at: Instant,
    },
}

impl State {
    fn after_sigkill(self, give_up_after: Duration) -> Self {
        let now = Instant::now();
        let give_up_at =
            self.give_up_at().unwrap_or_else(|| now + give_up_after.max(SIGKILL_INTERVAL));
        Self::Killed { again_at: now + SIGKILL_INTERVAL, give_up_at }
    }

    const fn kill_at(self) -> Option<Instant> {
        match self {
            Self::Running => None,
            Self::Stopping { kill_at } => kill_at,
            Self::Killed { again_at, .. } => Some(again_at),
        }
    }

    const fn give_up_at(self) -> Option<Instant> {
        if let Self::Killed { give_up_at, .. } = self { Some(give_up_at) } else { None }
    }
}

struct Ended {
    status: ExitStatus,
    stopped: bool,
    without_broker: bool,
    /// The end of a submission's stderr.
    stderr: String,
    /// The processes that SIGKILL has not ended.
    unkillable: Option<String>,
}

impl Ended {
    /// Flux's reason where it refused the command.
    fn last_line(&self) -> Option<String> {
        let last = self.stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map(str::to_owned)
    }
}

impl CommandRun {
    /// The command starts when its end is first waited for.
    pub(crate) fn start(self) -> RunningCommand {
        let (requests, receiver) = mpsc::unbounded_channel();
        RunningCommand { requests, end: Box::pin(self.run(receiver)) }
    }

    async fn run(self, mut requests: mpsc::UnboundedReceiver<SignalRequest>) -> CommandEnd {
        let before = if self.command.may_be_refused || self.command.signals_job {
            job_manager::newest(&self.client.broker, 1).await
        } else {
            None
        };
        let started = Instant::now();
        let (mut end, without_broker) = match self
            .until_ended(&mut requests, before.as_deref())
            .await
        {
            Ok(ended) => (self.explained(before.as_deref(), &ended).await, ended.without_broker),
            Err(error) => (self.not_started(&error), false),
        };
        if self.timed {
            output::print_stderr(&fluxtime_line("fluxsubmit", end.ended - started));
        }
        if !without_broker {
            let cleanup = async {
                if self.command.cleans_up {
                    register_cleanup(&self.client, self.log).await;
                }
            };
            // A short instance may end before its broker can be asked again.
            ((), end.jobs) = tokio::join!(cleanup, job_numbers(&self.client.broker));
        }
        end
    }

    /// The command leads a process group of its own: a signal reaches all of it, and no other process.
    fn prepared(&self) -> Command {
        let mut command = self.client.command(&self.command.words);
        if self.command.may_be_refused || !io::stdin().is_terminal() {
            // A command that reads it must meet its end, whatever the container's is. A job's is never a terminal.
            command.stdin(Stdio::null());
        }
        let names = self.client.session.environment.keys().filter_map(|name| name.to_str());
        for name in names.filter(|name| is_of_other_instance(name)) {
            command.env_remove(name);
        }
        if self.command.cleans_up {
            // An instance of Flux within a job has a cleanup of its own.
            command.env_remove(DISABLE_JOB_CLEANUP.0);
        }
        // A terminal is the submission's own: it shows its progress there.
        if self.command.may_be_refused && !io::stderr().is_terminal() {
            command.stderr(Stdio::piped());
        }
        command
    }

    async fn until_ended(
        &self,
        requests: &mut mpsc::UnboundedReceiver<SignalRequest>,
        before: Option<&[u64]>,
    ) -> io::Result<Ended> {
        let mut running = self.client.children.spawn(&mut self.prepared())?;
        let group = running.pid;
        give_terminal(group);
        let mut stderr = tokio::spawn(pass_on(running.stderr.take()));
        let mut state = State::Running;
        let (mut ended, mut without_broker, mut unkillable) = (None, false, None);
        let status = loop {
            if let Some(status) = ended
                && (!matches!(state, State::Stopping { .. }) || killpg(group, None).is_err())
            {
                break status;
            }
            tokio::select! {
                status = running.wait(), if ended.is_none() => ended = Some(status),
                // The rest of its group may be no children of this process, which is not notified of their ends then.
                () = sleep(GROUP_POLL_INTERVAL), if ended.is_some() => {}
                Some(request) = requests.recv() => {
                    without_broker |= request.broker_ended;
                    let asked = Instant::now();
                    if !self.signals_job(&request, before).await {
                        signal_group(&running, ended.is_some(), request.signal);
                    }
                    if request.signal == Signal::SIGKILL {
                        state = state.after_sigkill(self.give_up_after);
                    } else if request.signal == Signal::SIGTERM && state == State::Running {
                        let kill_at = asked.checked_add(self.kill_after);
                        state = State::Stopping { kill_at };
                    }
                }
                () = sleep_until(state.give_up_at()) => {
                    unkillable = Some(members(group).join(", "));
                    break ExitStatus::from_raw(Signal::SIGKILL as i32);
                }
                () = sleep_until(state.kill_at()) => {
                    if state.give_up_at().is_none() {
                        self.log.error("the command has not ended in its time: killing it");
                    }
                    signal_group(&running, ended.is_some(), Signal::SIGKILL);
                    state = state.after_sigkill(self.give_up_after);
                }
            }
        };
        let stopped = state != State::Running;
        let stderr = timeout(STDERR_TIMEOUT, &mut stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ok(Ended { status, stopped, without_broker, stderr, unkillable })
    }

    /// Sends the signal to the command's job if it has to, and returns whether that was possible. The job is the first one
    /// since those of `before`.
    async fn signals_job(&self, request: &SignalRequest, before: Option<&[u64]>) -> bool {
        let is_for_job = self.command.signals_job && OF_JOBS.contains(&request.signal);
        let Some(before) = before.filter(|_| is_for_job && !request.broker_ended) else {
            return false;
        };
        let broker = &self.client.broker;
        let sent = async {
            let job = *job_manager::since(broker, before, usize::from(u16::MAX)).await?.last()?;
            let sent = job_manager::signal(broker, job, request.signal as i32).await;
            sent.inspect_err(|error| self.log.warn(&format!("signal the job: {}", chain(error))))
                .ok()
        };
        timeout(self.kill_after / 2, sent).await.is_ok_and(|sent| sent.is_some())
    }

    fn not_started(&self, error: &io::Error) -> CommandEnd {
        let text = format!("start {}: {error}", shown(&self.command.words));
        self.log.error(&text);
        CommandEnd { error: Some(text), ..CommandEnd::new(start_failure_code(error).into(), None) }
    }

    /// The end with its reason: whether a command that failed ever ran, and why it failed.
    async fn explained(&self, before: Option<&[u64]>, ended: &Ended) -> CommandEnd {
        let code = exit_code(ended.status);
        let mut end = CommandEnd::new(code, ended.status.signal());
        if let Some(processes) = &ended.unkillable {
            let text = format!("SIGKILL does not end the command ({processes}): going on without");
            self.log.error(&text);
            end.error = Some(text);
        }
        if ended.stopped {
            return end;
        }
        let newest = match before {
            Some(before) => job_manager::since(&self.client.broker, before, MOST_JOBS).await,
            None => None,
        };
        if let Some([job]) = newest.as_deref() {
            end.job = Some(job_id::f58(*job));
        }
        if code == 0 {
            return end;
        }
        end.output = last_lines(&ended.stderr);
        let verdict = match &newest {
            Some(newest) => refusal::verdict(&self.client, newest).await,
            None => None,
        };
        match verdict {
            Some(Verdict::NotSubmitted) => {
                let text = format!("Flux did not take the command (exit code {code})");
                let refused = with(text, ended.last_line());
                let reason = self.own_error().filter(|_| code == i32::from(Exit::Prepare.code()));
                end.not_run = Some(reason.map_or_else(
                    || Failure::new(Exit::FluxRefused, refused),
                    |reason| Failure::new(Exit::Prepare, reason),
                ));
            }
            Some(Verdict::NotStarted(reason)) => {
                let text = format!("Flux did not start the command: {reason}");
                end.not_run = Some(Failure::new(Exit::FluxRefused, text));
            }
            Some(Verdict::Started(note)) => {
                // A job has other ends than by its command, as the loss of a node.
                let hint = meaning(code).and_then(|_| shell_hint(&self.command.words));
                end.error = note.map(|note| with(note, hint));
                if let Some(job) = &end.job {
                    end.failed_task = failed_task(&self.client, job).await;
                }
            }
            None => {}
        }
        end.error = end.error.or_else(|| self.own_error()).or_else(|| meaning(code));
        end
    }

    /// The error that the command has left in its file.
    fn own_error(&self) -> Option<String> {
        let path = self.command.error_file.as_ref()?;
        String::from_utf8(files::read_bounded(path, ERROR_LIMIT).ok()?).ok()
    }
}

fn is_of_other_instance(name: &str) -> bool {
    let is = |other: &&str| name == *other || other.ends_with('_') && name.starts_with(*other);
    OF_OTHER_INSTANCES.iter().any(is)
}

/// Sends `signal` to the process group of `running`, or, when that has ended, to what is left of the group.
fn signal_group(running: &Running, has_ended: bool, signal: Signal) {
    if has_ended {
        // That all of it has just ended is no error.
        let _ = killpg(running.pid, signal);
    } else {
        running.signal_group(signal);
    }
}

pub(super) fn with(text: String, more: Option<String>) -> String {
    iter::once(text).chain(more).collect::<Vec<_>>().join(": ")
}

/// The meaning of a code for shells (POSIX.1-2024, Shell Command Language, 2.8.2).
fn meaning(code: i32) -> Option<String> {
    let text = match code {
        126 => "the command, or a program that it calls, could not be executed",
        127 => "the command, or a program that it calls, was not found",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Why a command is run by `sh`, which the image may lack.
fn shell_hint(words: &[String]) -> Option<String> {
    let [.., sh, option, text] = words else { return None };
    let syntax = shell_syntax(text).filter(|_| sh == "sh" && option == "-c")?;
    Some(format!(
        "the command is run by sh because of its {syntax}; quote that, or use an image with a shell"
    ))
}

/// The last lines of tasks, without Flux's messages about their end, for which there is the exit code.
fn last_lines(stderr: &str) -> Option<String> {
    let is_theirs = |line: &&str| !line.starts_with(FLUX_PREFIX);
    let lines: String = stderr.split_inclusive('\n').filter(is_theirs).collect();
    Some(lines).filter(|lines| !lines.trim().is_empty())
}

/// Copies `source` to stderr and returns the last of it.
async fn pass_on(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let own = io::stderr().as_fd().try_clone_to_owned().map(fs::File::from);
    let (Some(mut source), Ok(own)) = (source, own) else { return Vec::new() };
    let (mut stderr, mut buffer) = (tokio::fs::File::from_std(own), vec![0; 16 * 1024]);
    let mut last = Vec::new();
    while let Ok(length) = source.read(&mut buffer).await
        && length > 0
    {
        // A log that has no reader ends no command.
        let _ = stderr.write_all(&buffer[..length]).await;
        let _ = stderr.flush().await;
        last.extend_from_slice(&buffer[..length]);
        last.drain(..last.len().saturating_sub(STDERR_LIMIT));
    }
    last
}
