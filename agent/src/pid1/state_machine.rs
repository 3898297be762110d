//! The supervision of a broker as a table of states and events; docs/design/stopping.md has its rules.
//!
//! Only [`next`] decides. [`supervise`](super::supervise) turns what happens into events and performs the actions.

use Action::{
    Begin, Drain, EndBroker, EndCommand, GiveUp, KillBroker, KillWithinLeave, KillWithinMain, Note,
    PassOnToBroker, PassOnToCommand, WarnLate,
};
use Event::{
    BrokerRuns, BrokerRunsNot, CommandEnded, Drained, LeadIsGone, NoScheduler, PassOn,
    QuorumIsSmaller, SocketClosed, Stop, TimeIsOver,
};
use State::{
    Command, CommandStops, Draining, Ending, Killed, LeadLost, Running, ShuttingDown, Starting,
};
use nix::sys::signal::Signal::{self, SIGTERM};

/// What the broker is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Worker,
    /// A lead whose run ends with its command.
    Command,
    /// A lead that stays up until it is shut down.
    Interactive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The broker has not reached its state `run`.
    Starting,
    /// The broker runs, without a command that the run ends with.
    Running,
    /// The broker of a lead runs, and the command beside it.
    Command,
    /// The command was asked to end because of a stop. The broker runs.
    CommandStops,
    /// The broker shuts down by itself, and the command was asked to end.
    ShuttingDown,
    /// A worker's rank takes no new jobs, and those that run there may end.
    Draining,
    /// A worker's broker was asked to end because its lead is gone.
    LeadLost,
    /// The broker was asked to end, or ends by itself.
    Ending,
    /// The broker was sent SIGKILL.
    Killed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The broker reports its state `run`.
    BrokerRuns,
    /// The broker reports another state.
    BrokerRunsNot,
    /// The broker, which has answered before, has closed its socket.
    SocketClosed,
    /// This number of brokers, fewer than the lead's broker waits for, is enough.
    QuorumIsSmaller(u32),
    /// The modules are loaded, but the scheduler has not started.
    NoScheduler,
    /// A worker's lead is gone.
    LeadIsGone,
    /// The run has to end. Programs other than the command get this signal.
    Stop(Signal),
    /// A signal of the user.
    PassOn(Signal),
    /// No job is left on the worker's rank, or no time for one. The broker gets this signal.
    Drained(Signal),
    CommandEnded,
    /// The time in which the broker had to end is over; the run was `stopped`, or was not.
    TimeIsOver {
        stopped: bool,
    },
}

/// Why the agent itself ended a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cause {
    #[error("the lead broker is gone: ending this one to look for it anew")]
    LeadLost,
    #[error("{0} brokers are enough now: starting this one again to wait for no more")]
    SmallerQuorum(u32),
    #[error("the scheduler has not started: ending the broker")]
    NoScheduler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// What follows the first `run` of the broker: a lead starts its command.
    Begin,
    /// Log and remember why the broker is ended.
    Note(Cause),
    PassOnToCommand(Signal),
    PassOnToBroker(Signal),
    /// Send SIGTERM to the command, whose broker shuts down.
    EndCommand,
    EndBroker(Signal),
    Drain,
    /// Kill the broker unless it ends within the main process' share of the grace period.
    KillWithinMain,
    /// The same within the share of brokers that leave.
    KillWithinLeave,
    WarnLate,
    KillBroker,
    /// Go on without the end of the broker, which cannot be killed.
    GiveUp,
}

/// The state and the actions that follow `event` in `state`. The first line that fits counts.
pub(crate) fn next(purpose: Purpose, state: State, event: Event) -> (State, Vec<Action>) {
    match (state, event) {
        (Killed, TimeIsOver { stopped: true }) => (Killed, vec![GiveUp]),
        (_, TimeIsOver { .. }) => (Killed, vec![WarnLate, KillBroker]),
        (Killed, _) => (Killed, vec![]),
        // All is kept by then. Where rc3 has failed, Flux 0.88 takes ten seconds more, and may stay forever.
        (_, SocketClosed) => (state, vec![KillWithinMain]),

        (Starting, BrokerRuns) if purpose == Purpose::Command => (Command, vec![Begin]),
        (Starting, BrokerRuns) => (Running, vec![Begin]),
        // It runs nothing yet, and an orderly end would take the workers with it for good.
        (Starting, QuorumIsSmaller(brokers)) => {
            (Killed, vec![Note(Cause::SmallerQuorum(brokers)), KillBroker])
        }
        // Without a scheduler every job would wait forever.
        (Running | Command, NoScheduler) => (Killed, vec![Note(Cause::NoScheduler), KillBroker]),
        (LeadLost, LeadIsGone) => (LeadLost, vec![]),
        // The last tasks of the broker ask the lead, which is gone: they have little time.
        (_, LeadIsGone) => {
            (LeadLost, vec![Note(Cause::LeadLost), EndBroker(SIGTERM), KillWithinLeave])
        }

        (Command, BrokerRunsNot) => (ShuttingDown, vec![EndCommand]),
        (CommandStops, BrokerRunsNot) => (ShuttingDown, vec![]),
        (Command | CommandStops, CommandEnded) => (Ending, vec![EndBroker(SIGTERM)]),
        (ShuttingDown, CommandEnded) => (Ending, vec![]),

        (Running, Stop(_)) if purpose == Purpose::Worker => (Draining, vec![KillWithinMain, Drain]),
        // At SIGTERM a program in a pod saves its state, whatever signal the agent got.
        (Command, Stop(_)) => (CommandStops, vec![KillWithinMain, PassOnToCommand(SIGTERM)]),
        (CommandStops | ShuttingDown, Stop(_)) => {
            (state, vec![KillWithinMain, PassOnToCommand(SIGTERM)])
        }
        (LeadLost, Stop(signal)) => (LeadLost, vec![KillWithinMain, PassOnToBroker(signal)]),
        // Also a second stop, which ends the wait for the jobs of a worker's rank.
        (_, Stop(signal)) => (Ending, vec![KillWithinMain, PassOnToBroker(signal)]),
        (Draining, Drained(signal)) => (Ending, vec![EndBroker(signal)]),
        // The broker ends after the command, so signals are for the command while it runs.
        (Command | CommandStops | ShuttingDown, PassOn(signal)) => {
            (state, vec![PassOnToCommand(signal)])
        }
        (_, PassOn(signal)) => (state, vec![PassOnToBroker(signal)]),
        _ => (state, vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Purpose::{Interactive, Worker};
    use nix::sys::signal::Signal::{SIGINT, SIGUSR1};
    use std::fmt::Write as _;

    const STATES: [State; 9] = [
        Starting,
        Running,
        Command,
        CommandStops,
        ShuttingDown,
        Draining,
        LeadLost,
        Ending,
        Killed,
    ];
    const EVENTS: [Event; 12] = [
        BrokerRuns,
        BrokerRunsNot,
        SocketClosed,
        QuorumIsSmaller(1),
        NoScheduler,
        LeadIsGone,
        Stop(SIGINT),
        PassOn(SIGUSR1),
        Drained(SIGINT),
        CommandEnded,
        TimeIsOver { stopped: false },
        TimeIsOver { stopped: true },
    ];

    /// Each line has a purpose, a state and an event that changes something, and what follows.
    #[test]
    fn the_table_of_states_and_events() {
        let mut table = String::new();
        for purpose in [Worker, Purpose::Command, Interactive] {
            for (state, event) in STATES.iter().flat_map(|it| EVENTS.map(|event| (*it, event))) {
                let (then, actions) = next(purpose, state, event);
                if then != state || !actions.is_empty() {
                    let _ =
                        writeln!(table, "{purpose:?} {state:?} {event:?}: {then:?} {actions:?}");
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
