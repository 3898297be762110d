//! How a run ends, as a function of what happened.
//!
//! The exit code is the user's whenever the user's command ran. A broker that ends with 0 proves
//! nothing: Flux does so, too, when it gets SIGTERM while it waits for the quorum.

use crate::failure::Failure;
use crate::pid1::command::{CommandEnd, with};
use crate::plan::step::WorkerRun;
use crate::process::exit_status::{end_text, exit_code};
use crate::process::signals::Stop;
use flux_contract::{Exit, TerminationMessage, WorkerPolicy};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BrokerEnd {
    /// Its exit code, 128 + N for signal N.
    pub code: i32,
    pub stop: Option<Stop>,
    /// When that was asked for first.
    pub stopped: Option<Instant>,
    pub ran: bool,
    pub lead_lost: bool,
    /// Whether the lead ended the instance when this broker of a worker ended; `None` where it has not answered.
    pub lead_ends: Option<bool>,
    /// It was ended because fewer brokers are enough than it waited for.
    pub quorum_is_smaller: bool,
    /// It was ended because its scheduler did not start.
    pub lacks_scheduler: bool,
    pub duration: Duration,
}

fn by_agent(exit: Exit, error: String) -> TerminationMessage {
    Failure::new(exit, error).into()
}

fn by_command(
    exit_code: i32,
    signal: Option<i32>,
    last_error: Option<String>,
) -> TerminationMessage {
    TerminationMessage { command_ran: true, signal, last_error, ..well(exit_code) }
}

/// The run ended with `exit_code` and there is nothing to say about it.
pub(crate) fn well(exit_code: i32) -> TerminationMessage {
    TerminationMessage { exit_code, ..TerminationMessage::default() }
}

impl From<Failure> for TerminationMessage {
    fn from(failure: Failure) -> Self {
        Self { last_error: Some(failure.to_string()), ..well(failure.code.into()) }
    }
}

/// The end of a lead that had a command to run; `None` where it was not started.
pub(crate) fn of_lead(command: Option<CommandEnd>, broker: BrokerEnd) -> TerminationMessage {
    let Some(command) = command.filter(|_| !broker.lacks_scheduler) else {
        return before_command(broker);
    };
    if let Some(stop) = broker.stop
        && broker.stopped.is_none_or(|stopped| command.ended > stopped)
    {
        // Whatever it made of the signal, it was not done. By the code the Job knows that the pod was taken
        // away, and by a suspension perhaps.
        let end = command.exit_code.map(|code| format!("it ended with exit code {code}"));
        let end = end.unwrap_or_else(|| "it was killed".to_owned());
        let text = format!("{stop} before the command had ended; told to stop, {end}");
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
        // Of a broker that was stopped after that, the code says nothing.
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
pub(crate) fn of_interactive_lead(broker: BrokerEnd) -> TerminationMessage {
    if !broker.ran || broker.lacks_scheduler {
        return before_command(broker);
    }
    let code = broker.code;
    match broker.stop {
        None => by_command(code, None, None),
        // A pod that is taken away must not look like one whose work is done.
        Some(stop) if code == 0 => by_agent(stop.exit(), stop.to_string()),
        Some(stop) => {
            let text = format!("{stop}; told to stop, the broker ended with exit code {code}");
            by_agent(stop.exit(), text)
        }
    }
}

fn before_command(broker: BrokerEnd) -> TerminationMessage {
    if let Some(stop) = broker.stop {
        return by_agent(stop.exit(), format!("{stop} before the command ran"));
    }
    let what = if broker.lacks_scheduler {
        "the scheduler did not start".to_owned()
    } else {
        format!("the broker ended with exit code {} before the command ran", broker.code)
    };
    let text = format!("{what}: the log says why, unless logging.quiet is set");
    by_agent(Exit::Broker, text)
}

/// The end of a sidecar whose command ended with `status`, `stop` being what asked it to.
pub(crate) fn of_sidecar(status: ExitStatus, stop: Option<Stop>) -> TerminationMessage {
    let code = exit_code(status);
    let error =
        stop.map_or_else(|| format!("the command {}", end_text(status)), |stop| stop.to_string());
    let error = (code != 0).then_some(error);
    by_command(code, status.signal(), error)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Leave(TerminationMessage),
    /// The broker is started again; the text says why.
    Restart(String),
}

/// Decides by `policy` what follows the end of a worker's broker. A broker ends well with its parent, so in a tree 0 does
/// not mean that the instance ends: the worker is done only when its lead is. A lead that `may_return` is followed by
/// another.
pub(crate) fn of_worker(policy: WorkerPolicy, may_return: bool, broker: BrokerEnd) -> Next {
    let code = broker.code;
    if let Some(stop) = broker.stop {
        // Not 0: a pod that is taken away must not look like one whose work is done.
        return Next::Leave(by_agent(stop.exit(), stop.to_string()));
    }
    if broker.lead_lost && policy != WorkerPolicy::LeaveAlways {
        return Next::Restart("the lead broker was gone".to_owned());
    }
    let text = format!("the broker ended with exit code {code}");
    match (policy, code) {
        // What it needs to run is missing; it will not come by itself.
        (_, 126 | 127) => {
            let why = "it, or the shell of its start script, could not be executed";
            Next::Leave(by_agent(Exit::Broker, format!("{text}: {why}")))
        }
        (WorkerPolicy::LeaveWhenDone, 0) if broker.lead_ends != Some(true) => {
            Next::Restart("the broker ended, and the lead goes on".to_owned())
        }
        (WorkerPolicy::LeaveWhenDone, 0) if may_return => {
            Next::Restart("the lead has stopped without an end of the run".to_owned())
        }
        (WorkerPolicy::LeaveWhenDone, 0) => Next::Leave(well(0)),
        (WorkerPolicy::LeaveAlways, _) => {
            let last_error = (code != 0).then_some(text);
            Next::Leave(TerminationMessage { last_error, ..well(0) })
        }
        (WorkerPolicy::LeaveWhenDone | WorkerPolicy::Rejoin, _) => Next::Restart(text),
    }
}

/// How long the port of a lead that has not answered is watched.
const UNSURE: Duration = Duration::from_secs(5);

/// How long a worker whose broker ended well watches the lead's port: where the lead has not answered, and where a lead
/// that ends is followed by another, for which the port must close first.
pub(crate) fn patience_with_lead(worker: &WorkerRun, broker: BrokerEnd) -> Duration {
    let ended_well = broker.code == 0 && broker.stop.is_none() && !broker.lead_lost;
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
    use nix::sys::signal::Signal;

    fn broker(code: i32) -> BrokerEnd {
        BrokerEnd { code, ran: true, ..BrokerEnd::default() }
    }

    /// A broker that was asked to end a second ago.
    fn stopped_by(stop: Stop, code: i32) -> BrokerEnd {
        let ago = Instant::now() - Duration::from_secs(1);
        BrokerEnd { stop: Some(stop), stopped: Some(ago), ..broker(code) }
    }

    fn stopped(code: i32) -> BrokerEnd {
        stopped_by(Signal::SIGTERM.into(), code)
    }

    fn command(exit_code: Option<i32>) -> CommandEnd {
        let ended = Instant::now();
        CommandEnd { ended, exit_code, ..CommandEnd::new(0, None) }
    }

    /// That `ended` has this code, is the command's own or not, and says this.
    fn assert_ended(ended: &TerminationMessage, code: i32, command_ran: bool, text: Option<&str>) {
        assert_eq!((ended.exit_code, ended.command_ran), (code, command_ran), "{ended:?}");
        match (text, &ended.last_error) {
            (Some(text), Some(error)) => assert!(error.contains(text), "{error}"),
            (text, error) => assert_eq!(text, error.as_deref()),
        }
    }

    #[test]
    fn the_commands_code_stands_whatever_the_broker_says_afterwards() {
        let lead = |code, end| of_lead(Some(command(Some(code))), end);
        let after = "exit code 1 after the command had ended with 7";
        assert_ended(&lead(7, broker(1)), 7, true, Some(after));
        assert_ended(&lead(7, broker(0)), 7, true, None);
        assert_ended(&lead(0, broker(0)), 0, true, None);
        let killed = of_lead(Some(command(None)), broker(137));
        assert_ended(&killed, 137, true, Some("its broker had ended with exit code 137"));
    }

    #[test]
    fn a_command_that_flux_refused_did_not_run_and_one_that_failed_says_what_is_known() {
        let not_run = Some(Failure::new(Exit::FluxRefused, "Flux refused"));
        let refused = CommandEnd { not_run, ..command(Some(2)) };
        assert_ended(&of_lead(Some(refused), broker(0)), 71, false, Some("Flux refused"));
        let not_found = CommandEnd { error: Some("not found".to_owned()), ..command(Some(127)) };
        assert_ended(&of_lead(Some(not_found), broker(0)), 127, true, Some("not found"));
    }

    #[test]
    fn a_broker_that_ends_before_the_command_is_a_failure_however_it_ends() {
        let before = Some("before the command ran");
        let early = BrokerEnd { ran: false, ..broker(1) };
        assert_ended(&of_lead(None, broker(0)), 76, false, before);
        assert_ended(&of_lead(None, stopped(0)), 75, false, before);
        assert_ended(&of_interactive_lead(early), 76, false, before);
        assert_ended(&of_interactive_lead(broker(0)), 0, true, None);
        let lacking = BrokerEnd { lacks_scheduler: true, ..broker(137) };
        let why = Some("the scheduler did not start: the log says why");
        assert_ended(&of_lead(Some(command(None)), lacking), 76, false, why);
        assert_ended(&of_interactive_lead(lacking), 76, false, why);
    }

    #[test]
    fn a_lead_that_is_stopped_says_so_whatever_command_and_broker_made_of_it() {
        let deadline = Stop::Deadline { seconds: 5 };
        let passed = "the deadline of 5 seconds has passed";
        for (stop, exit, text) in
            [(Signal::SIGTERM.into(), 75, "stopped by SIGTERM"), (deadline, 72, passed)]
        {
            let end = |code| stopped_by(stop, code);
            for ended in [
                of_lead(Some(command(Some(0))), end(0)),
                of_lead(Some(command(Some(143))), end(1)),
                of_lead(Some(command(None)), end(137)),
                of_interactive_lead(end(0)),
                of_interactive_lead(end(137)),
            ] {
                assert_ended(&ended, exit, false, Some(text));
            }
            let mut done = command(Some(7));
            done.ended -= Duration::from_secs(2);
            assert_ended(&of_lead(Some(done), end(1)), 7, true, None);
        }
        let Next::Leave(ended) = of_worker(WorkerPolicy::Rejoin, false, stopped_by(deadline, 0))
        else {
            panic!()
        };
        assert_ended(&ended, 72, false, Some(passed));
    }

    #[test]
    fn a_sidecar_ends_with_its_commands_code_and_says_why() {
        let of = |wait_status, stop| of_sidecar(ExitStatus::from_raw(wait_status), stop);
        assert_ended(&of(0, None), 0, true, None);
        assert_ended(&of(3 << 8, None), 3, true, Some("the command ended with exit code 3"));
        let killed = of(9, None);
        assert_eq!((killed.exit_code, killed.signal), (137, Some(9)));
        assert_eq!(of(0x80 + 11, None).exit_code, 139, "also where it dumped its core");
        let stopped = of(15, Some(Signal::SIGTERM.into()));
        assert_eq!(stopped.last_error.unwrap(), "stopped by SIGTERM");
    }

    #[test]
    fn a_worker_restarts_or_leaves_by_its_policy() {
        use WorkerPolicy::{LeaveAlways, LeaveWhenDone, Rejoin};
        let code = |policy, end| match of_worker(policy, false, end) {
            Next::Leave(ended) => Some(ended.exit_code),
            Next::Restart(_) => None,
        };
        assert_eq!(code(LeaveWhenDone, broker(1)), None);
        assert_eq!(code(LeaveAlways, broker(1)), Some(0));
        assert_eq!(code(Rejoin, broker(0)), None);
        assert_eq!(code(Rejoin, broker(127)), Some(76));
        assert_eq!(code(Rejoin, stopped(0)), Some(75));
        let orphaned = BrokerEnd { lead_lost: true, ..broker(0) };
        assert_eq!(code(LeaveWhenDone, orphaned), None, "0 is no proof of a good end then");
    }

    #[test]
    fn a_worker_whose_broker_ended_well_leaves_with_its_lead_alone() {
        let goes_on = "the broker ended, and the lead goes on";
        let returns = "the lead has stopped without an end of the run";
        for (lead_ends, may_return, why) in [
            (Some(true), false, None),
            (Some(true), true, Some(returns)),
            (Some(false), false, Some(goes_on)),
            (None, true, Some(goes_on)),
        ] {
            let end = BrokerEnd { lead_ends, ..broker(0) };
            let next = of_worker(WorkerPolicy::LeaveWhenDone, may_return, end);
            let left = Next::Leave(well(0));
            let expected = why.map_or(left, |why| Next::Restart(why.to_owned()));
            assert_eq!(next, expected);
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_start_again_after_a_good_run() {
        let (mut pause, mut pauses) = (None, Vec::new());
        for seconds in [1, 1, 1, 1, 1, 1, 1, 60] {
            pause = Some(next_pause(pause, Duration::from_secs(seconds)));
            pauses.extend(pause.map(|pause| pause.as_millis()));
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000, 500]);
    }
}
