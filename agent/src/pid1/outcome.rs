//! How a run ends, as a function of the ends of broker and command.
//!
//! The exit code is the user's whenever the user's command ran. A broker that ends with 0 proves nothing: Flux does so,
//! too, when it gets SIGTERM while it waits for the quorum.

use crate::failure::Failure;
use crate::flux::broker_watch::Event;
use crate::pid1::command::{CommandEnd, with};
use crate::pid1::state_machine::Cause;
use crate::plan::step::WorkerRun;
use crate::process::exit_status::{end_text, exit_code};
use crate::process::signals::Stop;
use flux_contract::obstacle::{Obstacle, ObstacleCause};
use flux_contract::{Exit, JobNumbers, TerminationMessage, WorkerPolicy};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BrokerEnd {
    /// Its exit code, 128 + N for signal N.
    pub code: i32,
    pub stop: Option<Stop>,
    /// When the first stop came.
    pub stopped: Option<Instant>,
    /// It has reached its state `run`.
    pub ran: bool,
    /// Why the agent itself ended it, where that was no stop.
    pub cause: Option<Cause>,
    /// Whether the lead ended the instance when this broker of a worker ended; `None` where it has not answered.
    pub lead_ends: Option<bool>,
    /// Ids of the jobs that ran on its rank when it had to be ended.
    pub unfinished_jobs: Vec<String>,
    /// The jobs of the instance, as the lead's broker has counted them while it ended.
    pub jobs: Option<JobNumbers>,
    pub duration: Duration,
}

impl BrokerEnd {
    pub(crate) fn lead_lost(&self) -> bool {
        self.cause == Some(Cause::LeadLost)
    }

    /// Keeps what the broker has reported about its end.
    pub(crate) fn note(&mut self, change: &Event) {
        match change {
            Event::LeadEnds(ends) => self.lead_ends = Some(*ends),
            Event::Jobs(jobs) => self.jobs = Some(*jobs),
            Event::State(_) | Event::Closed | Event::LeadGone => {}
        }
    }

    fn lacks_scheduler(&self) -> bool {
        self.cause == Some(Cause::NoScheduler)
    }

    /// Whether another broker has to take its place, which waits for fewer.
    pub(crate) fn waited_for_too_many(&self) -> bool {
        matches!(self.cause, Some(Cause::SmallerQuorum(_))) && self.stop.is_none()
    }
}

fn by_agent(exit: Exit, error: String) -> TerminationMessage {
    Failure::new(exit, error).into()
}

fn by_command(
    exit_code: i32,
    signal: Option<i32>,
    last_error: Option<String>,
) -> TerminationMessage {
    TerminationMessage { command_ran: true, signal, last_error, ..with_code(exit_code) }
}

fn with_code(exit_code: i32) -> TerminationMessage {
    TerminationMessage { exit_code, ..TerminationMessage::default() }
}

/// The end of a run that has nothing to report.
pub(crate) fn success() -> TerminationMessage {
    TerminationMessage::default()
}

impl From<Failure> for TerminationMessage {
    fn from(failure: Failure) -> Self {
        Self { last_error: Some(failure.to_string()), ..with_code(failure.code.into()) }
    }
}

/// The end of a lead that had a command to run; `None` where it was not started.
pub(crate) fn lead_outcome(command: Option<CommandEnd>, broker: &BrokerEnd) -> TerminationMessage {
    let Some(command) = command.filter(|_| !broker.lacks_scheduler()) else {
        return before_command(broker);
    };
    if let Some(stop) = broker.stop
        && broker.stopped.is_none_or(|stopped| command.ended > stopped)
    {
        // The command had not ended by itself. By the code the Job controller knows that the pod was taken away, perhaps by
        // a suspension.
        let end = command.exit_code.map(|code| format!("it then ended with exit code {code}"));
        let end = end.unwrap_or_else(|| "it was killed".to_owned());
        let text = format!("{stop} before the command had ended; {end}");
        let text = with(text, command.error);
        return TerminationMessage { signal: command.signal, ..by_agent(stop.exit(), text) };
    }
    let CommandEnd { job: jobid, failed_task, output, .. } = command;
    if let Some(failure) = command.not_run {
        return TerminationMessage { jobid, output, ..failure.into() };
    }
    let of_broker = format!("ended with exit code {}", broker.code);
    let error = match command.exit_code {
        None => {
            let text = format!("the command was killed because its broker had {of_broker}");
            Some(with(text, command.error))
        }
        // The code of a broker that was stopped after that means nothing.
        Some(code) if broker.code != 0 && broker.stop.is_none() => {
            Some(format!("the broker {of_broker} after the command had ended with {code}"))
        }
        Some(_) => command.error,
    };
    let code = command.exit_code.unwrap_or(broker.code);
    let ended = by_command(code, command.signal, error);
    TerminationMessage { jobid, failed_task, output, ..ended }
}

/// The end of a lead whose broker stays up until it is shut down.
pub(crate) fn interactive_lead_outcome(broker: &BrokerEnd) -> TerminationMessage {
    if !broker.ran || broker.lacks_scheduler() {
        return before_command(broker);
    }
    let code = broker.code;
    match broker.stop {
        None => by_command(code, None, None),
        // A pod that is taken away must not look like one whose work is done.
        Some(stop) if code == 0 => by_agent(stop.exit(), stop.to_string()),
        Some(stop) => {
            let text = format!("{stop}; the broker then ended with exit code {code}");
            by_agent(stop.exit(), text)
        }
    }
}

fn before_command(broker: &BrokerEnd) -> TerminationMessage {
    if let Some(stop) = broker.stop {
        return by_agent(stop.exit(), format!("{stop} before the command ran"));
    }
    let what = if broker.lacks_scheduler() {
        "the scheduler did not start".to_owned()
    } else {
        format!("the broker ended with exit code {} before the command ran", broker.code)
    };
    let text = format!("{what}: the log says why, unless logging.quiet is set");
    by_agent(Exit::Broker, text)
}

/// The end of a sidecar whose command ended with `status`, because of `stop` if there was one.
pub(crate) fn sidecar_outcome(status: ExitStatus, stop: Option<Stop>) -> TerminationMessage {
    let code = exit_code(status);
    let error =
        stop.map_or_else(|| format!("the command {}", end_text(status)), |stop| stop.to_string());
    let error = (code != 0).then_some(error);
    by_command(code, status.signal(), error)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Exit(Box<TerminationMessage>),
    /// The broker is started again, for this reason.
    Restart(String),
}

fn exit(message: TerminationMessage) -> Outcome {
    Outcome::Exit(Box::new(message))
}

/// The obstacle of a worker whose broker ended before it had joined, although the lead lets its certificate in. The
/// brokers log why: the refused one for another release, the lead for other hosts (seen with flux-core 0.84 and 0.88).
pub(crate) fn refusal(broker: &BrokerEnd, why: &str) -> Option<Obstacle> {
    let is_refused = !broker.ran && broker.code != 0 && !broker.lead_lost();
    let message = format!("{why} before it had joined, although the lead lets its certificate in");
    is_refused.then_some(Obstacle { cause: ObstacleCause::Broker, message })
}

/// Decides by `policy` what follows the end of a worker's broker. A broker ends well with its parent, so in a tree 0 does
/// not mean that the instance ends: the worker is done only when its lead is. A lead that `may_return` is followed by
/// another.
pub(crate) fn worker_outcome(
    policy: WorkerPolicy,
    may_return: bool,
    broker: &BrokerEnd,
) -> Outcome {
    let code = broker.code;
    if let Some(stop) = broker.stop {
        // Not 0: a pod that is taken away must not look like one whose work is done.
        let unfinished_jobs = broker.unfinished_jobs.clone();
        let ended = by_agent(stop.exit(), stop.to_string());
        return exit(TerminationMessage { unfinished_jobs, ..ended });
    }
    if broker.lead_lost() && policy != WorkerPolicy::LeaveAlways {
        return Outcome::Restart("the lead broker was gone".to_owned());
    }
    let text = format!("the broker ended with exit code {code}");
    match (policy, code) {
        // Something that it needs to run is missing, which a restart does not change.
        (_, 126 | 127) => {
            let why = "it, or the shell of its start script, could not be executed";
            exit(by_agent(Exit::Broker, format!("{text}: {why}")))
        }
        (WorkerPolicy::LeaveWhenDone, 0) if broker.lead_ends != Some(true) => {
            Outcome::Restart("the broker ended, and the lead goes on".to_owned())
        }
        (WorkerPolicy::LeaveWhenDone, 0) if may_return => {
            Outcome::Restart("the lead has stopped without an end of the run".to_owned())
        }
        (WorkerPolicy::LeaveWhenDone, 0) => exit(success()),
        (WorkerPolicy::LeaveAlways, _) => {
            let last_error = (code != 0).then_some(text);
            exit(TerminationMessage { last_error, ..success() })
        }
        (WorkerPolicy::LeaveWhenDone | WorkerPolicy::Rejoin, _) => Outcome::Restart(text),
    }
}

/// How long the port of a lead that has not answered is watched.
const UNSURE: Duration = Duration::from_secs(5);

/// How long a worker whose broker ended well watches the lead's port: where the lead has not answered, and where a lead
/// that ends is followed by another, for which the port must close first.
pub(crate) fn patience_with_lead(worker: &WorkerRun, broker: &BrokerEnd) -> Duration {
    let ended_well = broker.code == 0 && broker.stop.is_none() && !broker.lead_lost();
    if !ended_well || worker.policy != WorkerPolicy::LeaveWhenDone {
        return Duration::ZERO;
    }
    match broker.lead_ends {
        Some(true) => Duration::from_secs(worker.lead_may_return_seconds.unwrap_or_default()),
        Some(false) => Duration::ZERO,
        None => UNSURE,
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A broker that ran this long was a working one: its end is no continuation of failures.
const WORKED: Duration = Duration::from_mins(1);

/// The pause before a broker that ran for `ran` is started again: twice the one before.
pub(crate) fn next_pause(before: Option<Duration>, ran: Duration) -> Duration {
    let longer = before.filter(|_| ran < WORKED).map(|before| before * 2);
    longer.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use WorkerPolicy::{LeaveAlways, LeaveWhenDone, Rejoin};
    use nix::sys::signal::Signal::SIGTERM;

    const DEADLINE: Stop = Stop::Deadline { seconds: 5 };

    fn broker(code: i32) -> BrokerEnd {
        BrokerEnd { code, ran: true, ..BrokerEnd::default() }
    }

    /// A broker that was asked to end a second ago.
    fn stopped_by(stop: Stop, code: i32) -> BrokerEnd {
        let ago = Instant::now() - Duration::from_secs(1);
        BrokerEnd { stop: Some(stop), stopped: Some(ago), ..broker(code) }
    }

    fn stopped(code: i32) -> BrokerEnd {
        stopped_by(SIGTERM.into(), code)
    }

    fn ended_by(cause: Cause, code: i32) -> BrokerEnd {
        BrokerEnd { cause: Some(cause), ..broker(code) }
    }

    fn command(exit_code: Option<i32>) -> CommandEnd {
        let ended = Instant::now();
        CommandEnd { ended, exit_code, ..CommandEnd::new(0, None) }
    }

    /// Checks the code, whether it is the command's own, and what the message has in it; empty: no message.
    fn assert_ended(ended: &TerminationMessage, code: i32, command_ran: bool, text: &str) {
        assert_eq!((ended.exit_code, ended.command_ran), (code, command_ran), "{ended:?}");
        let error = ended.last_error.as_deref().unwrap_or_default();
        assert!(error.contains(text) && error.is_empty() == text.is_empty(), "{text}: {error}");
    }

    #[test]
    fn a_broker_that_fails_before_it_has_joined_is_refused() {
        let end = |ran, code, cause| BrokerEnd { code, ran, cause, ..BrokerEnd::default() };
        for (end, is_refused) in [
            (end(false, 1, None), true),
            (end(true, 1, None), false),
            (end(false, 0, None), false),
            (end(false, 1, Some(Cause::LeadLost)), false),
        ] {
            assert_eq!(refusal(&end, "it ended").is_some(), is_refused, "{end:?}");
        }
    }

    #[test]
    fn a_lead_with_a_command_ends_with_its_code() {
        let not_run = Some(Failure::new(Exit::FluxRefused, "Flux refused"));
        let refused = CommandEnd { not_run, ..command(Some(2)) };
        let not_found = CommandEnd { error: Some("not found".to_owned()), ..command(Some(127)) };
        let earlier = Instant::now() - Duration::from_secs(2);
        let done = CommandEnd { ended: earlier, ..command(Some(7)) };
        let after = "exit code 1 after the command had ended with 7";
        let before = "before the command ran";
        let killed = "its broker had ended with exit code 137";
        let lacking = ended_by(Cause::NoScheduler, 137);
        let no_scheduler = "the scheduler did not start: the log says why";
        for (end, broker, code, command_ran, text) in [
            (Some(command(Some(7))), broker(1), 7, true, after),
            (Some(command(Some(7))), broker(0), 7, true, ""),
            (Some(command(Some(0))), broker(0), 0, true, ""),
            (Some(command(None)), broker(137), 137, true, killed),
            (Some(refused), broker(0), 71, false, "Flux refused"),
            (Some(not_found), broker(0), 127, true, "not found"),
            (None, broker(0), 76, false, before),
            (None, stopped(0), 75, false, before),
            (Some(command(None)), lacking, 76, false, no_scheduler),
            // The command had ended before the stop.
            (Some(done), stopped(1), 7, true, ""),
        ] {
            assert_ended(&lead_outcome(end, &broker), code, command_ran, text);
        }
    }

    #[test]
    fn an_interactive_lead_ends_with_its_broker() {
        let early = BrokerEnd { ran: false, ..broker(1) };
        let lacking = ended_by(Cause::NoScheduler, 137);
        for (broker, code, command_ran, text) in [
            (early, 76, false, "before the command ran"),
            (broker(0), 0, true, ""),
            (lacking, 76, false, "the scheduler did not start: the log says why"),
        ] {
            assert_ended(&interactive_lead_outcome(&broker), code, command_ran, text);
        }
    }

    #[test]
    fn a_stop_is_the_outcome_of_a_stopped_run() {
        let passed = "the deadline of 5 seconds has passed";
        for (stop, exit, text) in
            [(SIGTERM.into(), 75, "stopped by SIGTERM"), (DEADLINE, 72, passed)]
        {
            let end = |code| stopped_by(stop, code);
            for ended in [
                lead_outcome(Some(command(Some(0))), &end(0)),
                lead_outcome(Some(command(Some(143))), &end(1)),
                lead_outcome(Some(command(None)), &end(137)),
                interactive_lead_outcome(&end(0)),
                interactive_lead_outcome(&end(137)),
            ] {
                assert_ended(&ended, exit, false, text);
            }
        }
        let Outcome::Exit(ended) = worker_outcome(Rejoin, false, &stopped_by(DEADLINE, 0)) else {
            panic!()
        };
        assert_ended(&ended, 72, false, passed);
    }

    #[test]
    fn a_sidecar_ends_with_its_commands_code() {
        // With 139 a command ends that has dumped its core.
        for (wait_status, stop, code, signal, text) in [
            (0, None, 0, None, ""),
            (3 << 8, None, 3, None, "the command ended with exit code 3"),
            (9, None, 137, Some(9), "the command was ended by signal 9"),
            (0x80 + 11, None, 139, Some(11), "the command was ended by signal 11"),
            (15, Some(SIGTERM.into()), 143, Some(15), "stopped by SIGTERM"),
        ] {
            let ended = sidecar_outcome(ExitStatus::from_raw(wait_status), stop);
            assert_ended(&ended, code, true, text);
            assert_eq!(ended.signal, signal);
        }
    }

    #[test]
    fn a_worker_restarts_or_exits_by_its_policy() {
        let lead = |lead_ends| BrokerEnd { lead_ends, ..broker(0) };
        let goes_on = Err("the broker ended, and the lead goes on");
        let returns = Err("the lead has stopped without an end of the run");
        let failed = Err("the broker ended with exit code 1");
        for (policy, may_return, end, expected) in [
            (LeaveWhenDone, false, broker(1), failed),
            (LeaveAlways, false, broker(1), Ok(0)),
            (Rejoin, false, broker(0), Err("the broker ended with exit code 0")),
            (Rejoin, false, broker(127), Ok(76)),
            (Rejoin, false, stopped(0), Ok(75)),
            // 0 is no proof of a good end then.
            (LeaveWhenDone, false, ended_by(Cause::LeadLost, 0), Err("the lead broker was gone")),
            (LeaveWhenDone, false, lead(Some(true)), Ok(0)),
            (LeaveWhenDone, true, lead(Some(true)), returns),
            (LeaveWhenDone, false, lead(Some(false)), goes_on),
            (LeaveWhenDone, true, lead(None), goes_on),
        ] {
            let outcome = worker_outcome(policy, may_return, &end);
            let outcome = match &outcome {
                Outcome::Exit(ended) => Ok(ended.exit_code),
                Outcome::Restart(why) => Err(why.as_str()),
            };
            assert_eq!(outcome, expected, "{policy:?} {end:?}");
        }
    }

    #[test]
    fn pauses_double_and_start_again_after_a_minute() {
        let (mut pause, mut pauses) = (None, Vec::new());
        for seconds in [1, 1, 1, 1, 1, 1, 1, 60] {
            pause = Some(next_pause(pause, Duration::from_secs(seconds)));
            pauses.extend(pause.map(|pause| pause.as_millis()));
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000, 500]);
    }
}
