//! Carrying out what the job manager decides, and running tasks.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::core::{Broker, Deadline};
use super::log::Severity;
use crate::jobs::manager::Effect;
use crate::jobs::task::{self, Happened, Report, Runner, TaskOrder};
use crate::overlay::wire::{Downward, Upward};
use crate::text::duration;

/// Time between SIGTERM and SIGKILL, unless configured.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    /// Carries out decisions, here or on other ranks.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Command(0, command) => self.obey(command),
                Effect::Command(rank, command) => self.send_down(rank, &command),
                Effect::Tell(client, reply) => self.tell(client, reply),
                Effect::KillLater(id) => {
                    let limit = self.setup.config.exec.kill_timeout.as_deref();
                    let limit = limit.and_then(duration::parse).unwrap_or(KILL_TIMEOUT);
                    self.later(limit, Deadline::JobKill(id));
                }
            }
        }
    }

    /// Does what the job manager wants of this broker.
    pub(super) fn obey(&mut self, command: Downward) {
        match command {
            Downward::Start(order) => self.start_task(&order),
            Downward::Signal(job, signal) => self.signal_tasks(job, signal),
            Downward::Write(order) => {
                if let Err(error) = task::write(&order) {
                    self.log_as("job-exec", Severity::Error, &format!("output: {error}"));
                }
            }
            other => self.told_by_parent(other),
        }
    }

    fn start_task(&mut self, order: &TaskOrder) {
        let runner = Runner {
            reports: self.channels.news.clone(),
            uri: self.setup.attributes.get("local-uri").unwrap_or_default().to_owned(),
            rundir: self.setup.attributes.get("rundir").unwrap_or_default().to_owned(),
        };
        if let Some(process) = runner.start(order) {
            self.processes.insert((order.job, order.task), process);
        }
    }

    fn signal_tasks(&self, job: u64, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        for ((owner, _), process) in &self.processes {
            if let Some(process) = i32::try_from(*process).ok().filter(|_| *owner == job) {
                // A task that has just ended cannot be signalled.
                let _ = kill(Pid::from_raw(-process), signal);
            }
        }
    }

    /// News of a task: on a worker it goes up, on the lead to the manager.
    pub(super) fn task_report(&mut self, report: Report) {
        if !matches!(report.news, Happened::Output(..)) {
            self.processes.remove(&(report.job, report.task));
        }
        if self.is_leader() {
            let effects = self.manager.report(report);
            self.carry_out(effects);
        } else {
            self.send_up(&Upward::Task(report));
        }
    }
}
