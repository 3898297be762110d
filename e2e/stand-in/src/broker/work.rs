//! Carrying out what the job manager decides, and running tasks.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::core::Broker;
use super::deadlines::Deadline;
use super::log::Severity;
use crate::jobs::manager::Effect;
use crate::jobs::task::{self, News, Report, Runner, TaskOrder, WriteOrder};
use crate::overlay::wire::{Downward, Upward};
use crate::text::duration;

/// Time between SIGTERM and SIGKILL, unless configured.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    /// Carries out decisions, here or on other ranks.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(0, order) => self.start_task(&order),
                Effect::Start(rank, order) => {
                    self.send_down(rank, &Downward::Start(Box::new(order)));
                }
                Effect::Signal(0, job, signal) => self.signal_tasks(job, signal),
                Effect::Signal(rank, job, signal) => {
                    self.send_down(rank, &Downward::Signal { job, signal });
                }
                Effect::Write(0, order) => self.write_output(&order),
                Effect::Write(rank, order) => self.send_down(rank, &Downward::Write(order)),
                Effect::Tell(client, reply) => self.tell(client, reply),
                Effect::KillLater(id) => {
                    self.deadlines.set(self.kill_timeout(), Deadline::JobKill(id));
                }
                Effect::LimitLater(id, seconds) => {
                    if let Ok(limit) = Duration::try_from_secs_f64(seconds) {
                        self.deadlines.set(limit, Deadline::JobLimit(id));
                    }
                }
            }
        }
    }

    fn kill_timeout(&self) -> Duration {
        let text = self.config.pointer("/exec/kill-timeout").and_then(serde_json::Value::as_str);
        text.and_then(duration::parse)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(KILL_TIMEOUT)
    }

    /// Starts a task on this broker.
    pub(super) fn start_task(&mut self, order: &TaskOrder) {
        let runner = Runner {
            reports: self.channels.reports.clone(),
            uri: self.attributes.get("local-uri").unwrap_or_default().to_owned(),
            rundir: self.attributes.get("rundir").unwrap_or_default().to_owned(),
        };
        if let Some(process) = runner.start(order) {
            self.processes.insert((order.job, order.task), process);
        }
    }

    /// Signals the tasks of a job on this broker.
    pub(super) fn signal_tasks(&mut self, job: u64, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        for ((owner, _), process) in &self.processes {
            if let Some(process) = i32::try_from(*process).ok().filter(|_| *owner == job) {
                // A task that has just ended cannot be signalled.
                let _ = kill(Pid::from_raw(-process), signal);
            }
        }
    }

    /// Writes job output to a file on this broker.
    pub(super) fn write_output(&mut self, order: &WriteOrder) {
        if let Err(error) = task::write(order) {
            self.log_as("job-exec", Severity::Error, &format!("output: {error}"));
        }
    }

    /// News of a task: on a worker it goes up, on the lead to the manager.
    pub(super) fn task_report(&mut self, report: Report) {
        if !matches!(report.news, News::Output(..)) {
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
