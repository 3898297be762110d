//! The broker as a child of PID 1: started in a process group of its own, signals passed on, its
//! state watched.

use crate::archive;
use crate::broker_watch::{Event, Watch};
use crate::children::Running;
use crate::execute::{Context, StepError};
use crate::exit_status::exit_code;
use crate::lead_watch::LeadWatch;
use crate::program::monotonic_nanoseconds;
use crate::progress::phase;
use crate::signals::{Stop, asks_to_stop};
use crate::step::{BrokerRun, Role, shown};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, tcsetpgrp};
use std::future::pending;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a broker without a lead may take to end: its last tasks ask the lead, who is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(10);

/// How a broker's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerEnd {
    /// Its exit code, 128 + N for signal N.
    pub code: i32,
    /// The signal that asked for the end, if one did.
    pub stop: Option<Stop>,
    /// It was seen in state `run`.
    pub ran: bool,
    /// It was ended because the lead is gone.
    pub lead_lost: bool,
    /// When it started, by [`monotonic_nanoseconds`].
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}

/// Program and options of `broker`, complete with what depends on the moment it starts.
fn words(context: &Context, broker: &BrokerRun) -> Vec<String> {
    let options = broker.archive.as_ref().map_or_else(Vec::new, |archive| {
        let exists = context.root.at(&archive.path).exists();
        archive::options(archive, exists, archive::make_place(context, archive))
    });
    [broker.command.clone(), options, broker.program.clone()].concat()
}

/// Starts the broker and stays until it has ended, whatever signals come.
pub async fn run_broker(
    context: &mut Context,
    broker: &BrokerRun,
    role: Role,
) -> Result<BrokerEnd, StepError> {
    context.progress.enter(phase::QUORUM);
    let words = words(context, broker);
    context.log.say(&format!("starting the broker: {}", shown(&words)));
    let started = monotonic_nanoseconds();
    let start = |source| StepError::Start { program: words.join(" "), source };
    let mut command = context.session.broker_command(&words);
    let mut running = context.children.spawn(&mut command).map_err(start)?;
    give_terminal(running.pid());
    let (events, mut changes) = mpsc::unbounded_channel();
    let watch = tokio::spawn(watch(context, broker).run(events));
    let mut supervision =
        Supervision { broker, role, stop: None, ran: false, lead_lost: false, submission: None };
    let status = supervision.until_ended(context, &mut running, &mut changes).await;
    watch.abort();
    context.progress.broker_ended();
    Ok(BrokerEnd {
        code: exit_code(status.map_err(start)?),
        stop: supervision.stop,
        ran: supervision.ran,
        lead_lost: supervision.lead_lost,
        started,
        ended: monotonic_nanoseconds(),
    })
}

fn watch(context: &Context, broker: &BrokerRun) -> Watch {
    let mut uptime = context.session.broker_command(&broker.uptime);
    uptime.env("FLUX_URI", format!("local://{}", broker.socket.display()));
    Watch {
        socket: broker.socket.clone(),
        record: broker.record.clone(),
        uptime,
        children: context.children.clone(),
    }
}

/// A terminal belongs to one process group at a time; without this, a command that reads from it
/// would be stopped. Where there is none, or it is not ours, nothing happens.
fn give_terminal(group: Pid) {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        let _ = tcsetpgrp(stdin, group);
    }
}

struct Supervision<'run> {
    broker: &'run BrokerRun,
    role: Role,
    stop: Option<Stop>,
    ran: bool,
    lead_lost: bool,
    submission: Option<Running>,
}

impl Supervision<'_> {
    async fn until_ended(
        &mut self,
        context: &mut Context,
        running: &mut Running,
        changes: &mut mpsc::UnboundedReceiver<Event>,
    ) -> io::Result<ExitStatus> {
        let lead = self.broker.worker.as_ref().map(|worker| &worker.lead);
        let mut kill_at = Instant::now();
        let mut lost = pin!(async {
            match lead {
                Some(lead) => LeadWatch::default().lost(lead).await,
                None => pending().await,
            }
        });
        loop {
            tokio::select! {
                status = running.wait() => return status,
                // Before state `run` the broker looks for the lead itself, and says so.
                () = &mut lost, if self.ran && !self.lead_lost => {
                    context.log.warn("the lead broker is gone: ending this one to look for it anew");
                    self.lead_lost = true;
                    running.signal(Signal::SIGTERM);
                    kill_at = Instant::now() + ORPHAN_GRACE;
                }
                () = sleep_until(kill_at), if self.lead_lost => {
                    running.signal_group(Signal::SIGKILL);
                    kill_at = Instant::now() + ORPHAN_GRACE;
                }
                signal = context.signals.next() => {
                    context.log.say(&format!("passing {signal} on to the broker"));
                    running.signal(signal);
                    if asks_to_stop(signal) {
                        self.stop = Some(Stop(signal));
                    }
                }
                Some(event) = changes.recv() => self.note(context, &event),
                status = end_of(&mut self.submission) => {
                    self.submission = None;
                    note_submission(context, status);
                }
            }
        }
    }

    fn note(&mut self, context: &mut Context, event: &Event) {
        match event {
            Event::State(state) => {
                context.progress.broker_state(self.role, state);
                if state == "run" && !self.ran {
                    self.ran = true;
                    if let Some(entrance) = &self.broker.entrance {
                        context.log.say(&format!("the instance is up; to enter it: {entrance}"));
                    }
                    self.submit(context);
                }
            }
            Event::CommandStarted => context.progress.command_started(),
            Event::CommandEnded => context.progress.enter(phase::SHUTDOWN),
        }
    }

    /// Submits the command of an interactive MiniCluster, once.
    fn submit(&mut self, context: &mut Context) {
        if let Some(words) = &self.broker.submission {
            context.log.say(&format!("submitting: {}", shown(words)));
            let mut command = context.session.broker_command(words);
            command.env("FLUX_URI", format!("local://{}", self.broker.socket.display()));
            if context.quiet {
                // The id of the job.
                command.stdout(Stdio::null());
            }
            match context.children.spawn(&mut command) {
                Ok(running) => self.submission = Some(running),
                Err(error) => {
                    let text = format!("start {}: {error}", shown(words));
                    context.log.error(&text);
                    context.progress.failed(&text);
                }
            }
        }
        if self.broker.record.is_none() && self.role == Role::Lead {
            context.progress.command_started();
        }
    }
}

async fn end_of(running: &mut Option<Running>) -> io::Result<ExitStatus> {
    match running {
        Some(running) => running.wait().await,
        None => pending().await,
    }
}

fn note_submission(context: &Context, status: io::Result<ExitStatus>) {
    let end = match status {
        Ok(status) if status.success() => return,
        Ok(status) => format!("exit code {}", exit_code(status)),
        Err(error) => error.to_string(),
    };
    let text = format!("the command could not be submitted: {end}");
    context.log.error(&text);
    context.progress.failed(&text);
}
