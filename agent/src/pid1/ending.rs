//! How a run ends, as a function of what happened.
//!
//! The exit code is the user's whenever the user's command ran. A broker that ends with 0 proves
//! nothing: Flux does so, too, when it is told to stop while it waits for the quorum.

use crate::pid1::broker_end::BrokerEnd;
use crate::process::exit_status::{end_text, exit_code};
use crate::process::signals::Stop;
use crate::program::record::{NotRun, ProgramRecord};
use flux_contract::{Exit, Phase, WorkerPolicy, phase};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Code of the container.
    pub code: i32,
    /// The user's command ran and the code is its own.
    pub command_ran: bool,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Ended {
    /// The run ended for a reason of the agent's own.
    pub(crate) fn by_agent(exit: Exit, error: impl Into<String>) -> Self {
        let code = exit.code().into();
        Self { code, command_ran: false, signal: None, error: Some(error.into()) }
    }

    /// The run ended with `code` and there is nothing to say about it.
    pub(crate) const fn well(code: i32) -> Self {
        Self { code, command_ran: false, signal: None, error: None }
    }
}

/// The end of a lead whose broker had a command to run.
pub(crate) fn of_lead(record: Option<ProgramRecord>, broker: BrokerEnd) -> Ended {
    let Some(record) = record else { return before_command(broker) };
    if let Some(stop) = broker.stop
        && !record.ended_before(broker.stopped)
    {
        // Whatever it made of the signal, it was not done. By the code the Job knows that the pod was taken
        // away, and by a suspension perhaps.
        let end = record.exit_code.map_or_else(
            || "it was killed".to_owned(),
            |code| format!("it ended with exit code {code}"),
        );
        let text = format!("{stop} before the command had ended; told to stop, {end}");
        return Ended { signal: record.signal, ..Ended::by_agent(stop.exit(), text) };
    }
    if let Some(NotRun { exit_code, reason }) = record.not_run {
        return Ended { error: Some(reason), ..Ended::well(exit_code.into()) };
    }
    // Without an end in the record the wrapper itself was killed; the broker saw how.
    let code = record.exit_code.unwrap_or(if broker.code == 0 { 1 } else { broker.code });
    let error = match record.exit_code {
        None => Some("the command was killed together with the process that watched it".to_owned()),
        // The broker was stopped after that: its code tells nothing.
        Some(code) if code != broker.code && broker.stop.is_none() => Some(format!(
            "the broker ended with exit code {} after the command had ended with {code}",
            broker.code
        )),
        Some(_) => record.error,
    };
    Ended { code, command_ran: true, signal: record.signal, error }
}

/// The end of a lead whose broker stays up until it is shut down.
pub(crate) fn of_interactive_lead(broker: BrokerEnd) -> Ended {
    if !broker.ran {
        return before_command(broker);
    }
    match broker.stop {
        // A pod that is taken away must not look like one whose work is done.
        Some(stop) if broker.code == 0 => Ended::by_agent(stop.exit(), stop.to_string()),
        Some(stop) => {
            let code = broker.code;
            let text = format!("{stop}; told to stop, the broker ended with exit code {code}");
            Ended::by_agent(stop.exit(), text)
        }
        None => Ended { code: broker.code, command_ran: true, signal: None, error: None },
    }
}

fn before_command(broker: BrokerEnd) -> Ended {
    match broker.stop {
        Some(stop) => Ended::by_agent(stop.exit(), format!("{stop} before the command ran")),
        None => Ended::by_agent(
            Exit::Broker,
            format!(
                "the broker ended with exit code {} before the command ran: the log says why, unless \
                 logging.quiet is set",
                broker.code
            ),
        ),
    }
}

/// The end of a sidecar whose command ended with `status`, `stop` being what asked it to.
pub(crate) fn of_sidecar(status: ExitStatus, stop: Option<Stop>) -> Ended {
    let code = exit_code(status);
    let error =
        stop.map_or_else(|| format!("the command {}", end_text(status)), |stop| stop.to_string());
    let error = (code != 0).then_some(error);
    Ended { code, command_ran: true, signal: status.signal(), error }
}

/// What a worker does when its broker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// The run is over.
    Leave(Ended),
    /// The broker is started again; the text says why.
    Restart(String),
}

/// Decides by `policy` what follows the end of a worker's broker.
pub(crate) fn of_worker(policy: WorkerPolicy, broker: BrokerEnd) -> Next {
    let code = broker.code;
    if let Some(stop) = broker.stop {
        // Not 0: a pod that is taken away must not look like one whose work is done.
        return Next::Leave(Ended::by_agent(stop.exit(), stop.to_string()));
    }
    if broker.lead_lost && policy != WorkerPolicy::LeaveAlways {
        return Next::Restart("the lead broker was gone".to_owned());
    }
    let text = format!("the broker ended with exit code {code}");
    match (policy, code) {
        // What it needs to run is missing; it will not come by itself.
        (_, 126 | 127) => Next::Leave(Ended::by_agent(
            Exit::Broker,
            format!("{text}: it, or the shell of its start script, could not be executed"),
        )),
        (WorkerPolicy::LeaveWhenDone, 0) => Next::Leave(Ended::well(0)),
        (WorkerPolicy::LeaveAlways, _) => {
            Next::Leave(Ended { error: (code != 0).then_some(text), ..Ended::well(0) })
        }
        (WorkerPolicy::LeaveWhenDone | WorkerPolicy::Rejoin, _) => Next::Restart(text),
    }
}

/// Pauses between restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(15);
    /// A broker that ran this long was a working one: its end is no continuation of failures.
    const WORKED: Duration = Duration::from_mins(1);

    /// No failure yet.
    pub(crate) const fn new() -> Self {
        Self(Self::FIRST)
    }

    /// The pause after a broker that ran for `ran`; each is twice the one before.
    pub(crate) fn pause(&mut self, ran: Duration) -> Duration {
        if ran >= Self::WORKED {
            *self = Self::new();
        }
        let pause = self.0;
        self.0 = (pause * 2).min(Self::LONGEST);
        pause
    }
}

/// `phases` with the lead's command placed exactly: while it ran, its start and end were only
/// looked at from time to time; the record has them to the nanosecond.
pub(crate) fn with_exact_command(
    phases: Vec<Phase>,
    record: Option<ProgramRecord>,
    broker: BrokerEnd,
) -> Vec<Phase> {
    let Some(record) = record else { return phases };
    let of_broker = [phase::QUORUM, phase::COMMAND, phase::SHUTDOWN];
    let is_of_broker = |phase: &Phase| of_broker.contains(&phase.name.as_str());
    let Some(at) = phases.iter().position(is_of_broker) else { return phases };
    let begin = phases[at].start_milliseconds;
    let after = |time: u64| begin + time.saturating_sub(broker.started) / 1_000_000;
    let ended = record.ended_monotonic_nanoseconds.unwrap_or(broker.ended);
    let ends = [record.started_monotonic_nanoseconds, ended, broker.ended];
    let mut start_milliseconds = begin;
    let exact: Vec<Phase> = of_broker
        .into_iter()
        .zip(ends)
        .map(|(name, end)| {
            let end = after(end).max(start_milliseconds);
            let duration_milliseconds = end - start_milliseconds;
            let phase = Phase { name: name.to_owned(), start_milliseconds, duration_milliseconds };
            start_milliseconds = end;
            phase
        })
        .collect();
    let (before, rest) = phases.split_at(at);
    let rest = rest.iter().filter(|phase| !is_of_broker(phase)).cloned();
    before.iter().cloned().chain(exact).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    fn broker(code: i32) -> BrokerEnd {
        BrokerEnd {
            code,
            stop: None,
            stopped: None,
            ran: true,
            lead_lost: false,
            quorum_is_smaller: false,
            started: 0,
            ended: 9_000_000_000,
        }
    }

    fn stopped(code: i32) -> BrokerEnd {
        stopped_by(Stop::Signal(Signal::SIGTERM), code)
    }

    /// A broker that was told to end after four seconds.
    fn stopped_by(stop: Stop, code: i32) -> BrokerEnd {
        BrokerEnd { stop: Some(stop), stopped: Some(4_000_000_000), ..broker(code) }
    }

    fn record(exit_code: Option<i32>) -> ProgramRecord {
        ProgramRecord {
            started_monotonic_nanoseconds: 2_000_000_000,
            ended_monotonic_nanoseconds: exit_code.map(|_| 5_000_000_000),
            exit_code,
            ..ProgramRecord::default()
        }
    }

    fn summary(ended: &Ended) -> (i32, bool) {
        (ended.code, ended.command_ran)
    }

    #[test]
    fn the_commands_code_stands_whatever_the_broker_says_afterwards() {
        let ended = of_lead(Some(record(Some(7))), broker(1));
        assert_eq!(summary(&ended), (7, true));
        assert!(ended.error.unwrap().contains("exit code 1 after the command had ended with 7"));
        assert_eq!(of_lead(Some(record(Some(0))), broker(0)).error, None);
    }

    #[test]
    fn a_command_that_flux_refused_did_not_run_and_one_that_failed_says_what_is_known() {
        let not_run = NotRun { exit_code: 71, reason: "Flux refused".to_owned() };
        let refused = ProgramRecord { not_run: Some(not_run), ..record(Some(71)) };
        let ended = of_lead(Some(refused), broker(71));
        assert_eq!((summary(&ended), ended.error.as_deref()), ((71, false), Some("Flux refused")));
        let not_found = ProgramRecord { error: Some("not found".to_owned()), ..record(Some(127)) };
        let ended = of_lead(Some(not_found), broker(127));
        assert_eq!((summary(&ended), ended.error.as_deref()), ((127, true), Some("not found")));
    }

    #[test]
    fn a_broker_that_ends_well_without_the_command_is_a_failure() {
        assert_eq!(summary(&of_lead(None, broker(0))), (76, false));
        assert_eq!(summary(&of_lead(None, stopped(0))), (75, false));
    }

    #[test]
    fn a_command_whose_wrapper_was_killed_did_not_succeed() {
        assert_eq!(summary(&of_lead(Some(record(None)), broker(137))), (137, true));
        assert_eq!(summary(&of_lead(Some(record(None)), broker(0))), (1, true));
    }

    #[test]
    fn an_interactive_lead_ends_with_the_brokers_code_unless_it_was_taken_away() {
        assert_eq!(summary(&of_interactive_lead(broker(0))), (0, true));
        assert_eq!(summary(&of_interactive_lead(stopped(0))), (75, false));
        let early = BrokerEnd { ran: false, ..broker(1) };
        assert_eq!(summary(&of_interactive_lead(early)), (76, false));
    }

    #[test]
    fn a_run_that_its_deadline_ended_says_so_whatever_the_command_made_of_it() {
        let deadline = |code| stopped_by(Stop::Deadline { seconds: 5 }, code);
        let later = |code| Some(record(Some(code)));
        for ended in [
            of_lead(None, deadline(0)),
            of_lead(later(0), deadline(0)),
            of_lead(later(143), deadline(1)),
            of_lead(Some(record(None)), deadline(137)),
            of_interactive_lead(deadline(0)),
            of_interactive_lead(deadline(137)),
        ] {
            assert_eq!(summary(&ended), (72, false), "{ended:?}");
            assert!(ended.error.unwrap().starts_with("the deadline of 5 seconds has passed"));
        }
        let mut done = record(Some(7));
        done.ended_monotonic_nanoseconds = Some(3_900_000_000);
        assert_eq!(summary(&of_lead(Some(done), deadline(1))), (7, true), "it was done before");
        let Next::Leave(ended) = of_worker(WorkerPolicy::Rejoin, deadline(0)) else { panic!() };
        assert_eq!(summary(&ended), (72, false));
    }

    #[test]
    fn a_lead_that_is_stopped_says_so_whatever_command_and_broker_made_of_it() {
        let later = |code| Some(record(Some(code)));
        for ended in [
            of_lead(later(0), stopped(0)),
            of_lead(later(143), stopped(1)),
            of_lead(Some(record(None)), stopped(137)),
            of_interactive_lead(stopped(1)),
        ] {
            assert_eq!(summary(&ended), (75, false), "{ended:?}");
            assert!(ended.error.unwrap().starts_with("stopped by SIGTERM"));
        }
        let mut done = record(Some(7));
        done.ended_monotonic_nanoseconds = Some(3_900_000_000);
        let ended = of_lead(Some(done), stopped(1));
        assert_eq!((summary(&ended), ended.error), ((7, true), None), "it was done before");
    }

    #[test]
    fn a_sidecar_ends_with_its_commands_code_and_says_why() {
        let of = |wait_status, stop| of_sidecar(ExitStatus::from_raw(wait_status), stop);
        assert_eq!(of(0, None), Ended { command_ran: true, ..Ended::well(0) });
        let failed = of(3 << 8, None);
        assert_eq!(summary(&failed), (3, true));
        assert_eq!(failed.error.unwrap(), "the command ended with exit code 3");
        let killed = of(9, None);
        assert_eq!((killed.code, killed.signal), (137, Some(9)));
        let stopped = of(15, Some(Stop::Signal(Signal::SIGTERM)));
        assert_eq!(stopped.error.unwrap(), "stopped by SIGTERM", "no failure of the command's own");
    }

    #[test]
    fn a_worker_restarts_or_leaves_by_its_policy() {
        use WorkerPolicy::{LeaveAlways, LeaveWhenDone, Rejoin};
        let code = |policy, end| match of_worker(policy, end) {
            Next::Leave(ended) => Some(ended.code),
            Next::Restart(_) => None,
        };
        assert_eq!(code(LeaveWhenDone, broker(0)), Some(0));
        assert_eq!(code(LeaveWhenDone, broker(1)), None);
        assert_eq!(code(LeaveAlways, broker(1)), Some(0));
        assert_eq!(code(Rejoin, broker(0)), None);
        assert_eq!(code(Rejoin, broker(127)), Some(76));
        assert_eq!(code(Rejoin, stopped(0)), Some(75));
        let orphaned = BrokerEnd { lead_lost: true, ..broker(0) };
        assert_eq!(code(LeaveWhenDone, orphaned), None, "0 is no proof of a good end then");
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_start_again_after_a_good_run() {
        let mut backoff = Backoff::new();
        let short = Duration::from_secs(1);
        let pauses: Vec<u128> = (0..7).map(|_| backoff.pause(short).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000]);
        assert_eq!(backoff.pause(Duration::from_mins(1)).as_millis(), 500);
    }

    #[test]
    fn the_record_places_the_command_exactly() {
        let phase = |name: &str, start_milliseconds, duration_milliseconds| Phase {
            name: name.to_owned(),
            start_milliseconds,
            duration_milliseconds,
        };
        let seen =
            vec![phase("prepare", 0, 100), phase("quorum", 100, 9000), phase("post", 9100, 5)];
        let exact = with_exact_command(seen.clone(), Some(record(Some(0))), broker(0));
        let expected = vec![
            phase("prepare", 0, 100),
            phase("quorum", 100, 2000),
            phase("command", 2100, 3000),
            phase("shutdown", 5100, 4000),
            phase("post", 9100, 5),
        ];
        assert_eq!(exact, expected);
        assert_eq!(with_exact_command(seen.clone(), None, broker(0)), seen);
    }
}
