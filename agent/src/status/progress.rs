//! What a run has done so far: for the status and, at the end, the termination message.

use crate::plan::step::{Plan, Role};
use crate::status::document::StatusReport;
use crate::status::timing::milliseconds;
use flux_contract::demand::Demand;
use flux_contract::obstacle::Obstacle;
use flux_contract::{Phase, phase};
use tokio::sync::watch;
use tokio::time::Instant;

/// States in which a broker is part of its instance (RFC 42: `quorum` waits only for others).
const ONLINE: [&str; 2] = ["quorum", "run"];
/// State in which the lead runs the command.
const RUN: &str = "run";
/// Bytes of an error that a report has at most.
const LONGEST_ERROR: usize = 4096;

/// Collects what happens and publishes it. Of several starts of the broker it keeps the phases of the first and
/// the last: a worker may start its broker thousands of times.
#[derive(Debug)]
pub(crate) struct Progress {
    origin: Instant,
    /// How many phases came before the second start.
    first_start: Option<usize>,
    reports: watch::Sender<StatusReport>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let reports = watch::Sender::default();
        let mut progress = Self { origin: Instant::now(), first_start: None, reports };
        progress.enter(phase::PREPARE);
        progress
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<StatusReport> {
        self.reports.subscribe()
    }

    pub(crate) fn demand_reporter(&self) -> DemandReporter {
        DemandReporter(self.reports.clone())
    }

    pub(crate) fn planned(&self, plan: &Plan) {
        self.publish(|report| {
            report.role = plan.role.to_string();
            report.hostname.clone_from(&plan.hostname);
            report.rank = Some(plan.rank);
            report.notes.clone_from(&plan.notes);
        });
    }

    /// The agent loads the broker's modules, or Flux for this reason.
    pub(crate) fn modules_loaded_by(&self, flux_because: Option<&str>) {
        let loader =
            flux_because.map_or_else(|| "flux-agent".to_owned(), |why| format!("flux: {why}"));
        self.publish(|report| report.modules_loaded_by = Some(loader));
    }

    pub(crate) fn enter(&mut self, name: &str) {
        if self.reports.borrow().phase == name {
            return;
        }
        let now = Instant::now();
        let (start_milliseconds, owned) = (milliseconds(now - self.origin), name.to_owned());
        let phase = Phase { name: owned, start_milliseconds, duration_milliseconds: 0 };
        self.publish(|report| {
            report.phases = report.phases_until(now);
            report.phases.push(phase);
            report.since = Some(now);
            name.clone_into(&mut report.phase);
            report.doing = None;
        });
    }

    /// What the phase that runs does just now, if there is more to say than its name.
    pub(crate) fn doing(&self, step: Option<&str>) {
        self.publish(|report| report.doing = step.map(str::to_owned));
    }

    /// The broker reports `state`. A pod that was ready stays so while its broker ends: nothing is wrong with it.
    pub(crate) fn broker_state(&mut self, role: Role, state: &str) {
        let online = ONLINE.contains(&state);
        self.publish(|report| {
            report.broker_state = Some(state.to_owned());
            report.online = online;
            report.obstacle.take_if(|_| online);
            report.ready |= match role {
                Role::Lead => state == RUN,
                Role::Worker => online,
            };
        });
        if role == Role::Worker && online {
            self.enter(phase::COMMAND);
        }
    }

    /// The command has started: proof of the quorum.
    pub(crate) fn command_started(&mut self) {
        self.enter(phase::COMMAND);
        self.publish(|report| {
            report.online = true;
            report.ready = true;
        });
    }

    /// The broker has ended. Whether that was to be is not known yet: see [`Self::restarted`].
    pub(crate) fn broker_ended(&self) {
        self.publish(|report| {
            report.broker_state = None;
            report.online = false;
            report.demand = None;
        });
    }

    /// The broker is started once more. The phases that come take the place of those of the last start but the first.
    pub(crate) fn restarted(&mut self) {
        let first = self.first_start;
        self.publish(|report| {
            report.phases = report.phases_until(Instant::now());
            report.phases.truncate(first.unwrap_or(usize::MAX));
            report.since = None;
            report.restarts += 1;
            report.ready = false;
        });
        self.first_start.get_or_insert(self.reports.borrow().phases.len());
    }

    pub(crate) fn restarts(&self) -> u32 {
        self.reports.borrow().restarts
    }

    /// The run is over: whoever waits for the pod to become ready waits no longer. One that ended `well` was ready.
    pub(crate) fn over(&self, well: bool) {
        self.publish(|report| {
            report.over = true;
            report.ready |= well;
        });
    }

    /// `error` is what went wrong last.
    pub(crate) fn failed(&self, error: &str) {
        self.failure_reporter().publish(error);
    }

    pub(crate) fn failure_reporter(&self) -> FailureReporter {
        FailureReporter(self.reports.clone())
    }

    /// Puts back what went wrong before something that has come to a good end.
    pub(crate) fn set_last_error(&self, error: Option<String>) {
        self.publish(|report| report.last_error = error);
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.reports.borrow().last_error.clone()
    }

    pub(crate) fn set_obstacle(&self, mut obstacle: Option<Obstacle>) {
        if let Some(Obstacle { message, .. }) = &mut obstacle {
            message.truncate(message.floor_char_boundary(LONGEST_ERROR));
        }
        self.publish(|report| report.obstacle = obstacle);
    }

    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        self.reports.borrow().obstacle.clone()
    }

    /// All phases; the one that runs ends now.
    pub(crate) fn finish(&self) -> Vec<Phase> {
        self.reports.borrow().phases_until(Instant::now())
    }

    fn publish(&self, change: impl FnOnce(&mut StatusReport)) {
        self.reports.send_modify(change);
    }
}

/// Where what went wrong last is published.
#[derive(Debug, Clone)]
pub(crate) struct FailureReporter(watch::Sender<StatusReport>);

impl FailureReporter {
    /// Only the beginning of `error` is reported: it may hold all that a program said.
    pub(crate) fn publish(&self, error: &str) {
        let beginning = &error[..error.floor_char_boundary(LONGEST_ERROR)];
        self.0.send_modify(|report| report.last_error = Some(beginning.to_owned()));
    }
}

/// Where what the queue needs is published.
#[derive(Debug, Clone)]
pub(crate) struct DemandReporter(watch::Sender<StatusReport>);

impl DemandReporter {
    /// `None`: nobody knows.
    pub(crate) fn publish(&self, demand: Option<Demand>) {
        self.0.send_if_modified(|report| std::mem::replace(&mut report.demand, demand) != demand);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::advance;

    fn report(progress: &Progress) -> StatusReport {
        progress.subscribe().borrow().clone()
    }

    #[test]
    fn a_worker_is_ready_when_its_broker_is_online_and_the_lead_when_it_runs() {
        for (role, state, ready) in [
            (Role::Worker, "join", false),
            (Role::Worker, "quorum", true),
            (Role::Lead, "quorum", false),
            (Role::Lead, "run", true),
        ] {
            let mut progress = Progress::new();
            progress.broker_state(role, state);
            assert_eq!(report(&progress).ready, ready, "{role} {state}");
        }
    }

    fn phase(name: &str, start_milliseconds: u64, duration_milliseconds: u64) -> Phase {
        Phase { name: name.to_owned(), start_milliseconds, duration_milliseconds }
    }

    #[tokio::test(start_paused = true)]
    async fn a_phase_ends_where_another_begins() {
        let mut progress = Progress::new();
        for (name, milliseconds) in [(phase::PREPARE, 20), (phase::HOOKS, 30), (phase::HOOKS, 40)] {
            progress.enter(name);
            advance(Duration::from_millis(milliseconds)).await;
        }
        progress.enter(phase::PREPARE);
        let expected = [phase("prepare", 0, 20), phase("hooks", 20, 70), phase("prepare", 90, 0)];
        assert_eq!(progress.finish(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_thousand_starts_the_first_and_the_last_are_kept() {
        let mut progress = Progress::new();
        for _ in 0..1000 {
            progress.enter(phase::WAIT_FOR_LEAD);
            progress.enter(phase::QUORUM);
            advance(Duration::from_millis(4)).await;
            progress.restarted();
            advance(Duration::from_millis(6)).await;
        }
        progress.enter(phase::WAIT_FOR_LEAD);
        advance(Duration::from_millis(7)).await;
        let first = [phase("prepare", 0, 0), phase("wait-for-lead", 0, 0), phase("quorum", 0, 4)];
        assert_eq!(progress.finish(), [&first[..], &[phase("wait-for-lead", 10_000, 7)]].concat());
    }

    #[test]
    fn a_pod_stays_ready_until_its_broker_is_started_again() {
        let mut progress = Progress::new();
        progress.broker_state(Role::Worker, "run");
        progress.broker_state(Role::Worker, "shutdown");
        progress.broker_ended();
        assert!(report(&progress).ready && !report(&progress).online);
        progress.restarted();
        assert!(!report(&progress).ready);
    }

    #[test]
    fn an_error_without_end_is_cut() {
        let progress = Progress::new();
        progress.failed(&"é".repeat(100_000));
        assert_eq!(progress.last_error().unwrap().len(), LONGEST_ERROR);
    }
}
