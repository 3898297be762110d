//! Carrying out what the job manager decides, and running tasks.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::core::{Broker, Deadline, News};
use super::log::Severity;
use crate::jobs::manager::Effect;
use crate::jobs::task::{self, Happened, Order, TaskOrder};
use crate::overlay::wire::{Downward, Upward};
use crate::text::duration;

/// Time between SIGTERM and SIGKILL, unless configured.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    /// Carries out decisions, here or on other ranks.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Order(0, order) => self.obey(order),
                Effect::Order(rank, order) => self.send_down(rank, &Downward::Order(order)),
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
    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::Start(order) => self.start_task(&order),
            Order::Signal(job, signal) => self.signal_tasks(job, signal),
            Order::Write(order) => {
                if let Err(error) = task::write(&order) {
                    self.log_as("job-exec", Severity::Error, &format!("output: {error}"));
                }
            }
        }
    }

    fn start_task(&mut self, order: &TaskOrder) {
        let (job, task) = (order.job, order.task);
        let attribute = |name: &str| self.setup.attributes.get(name).unwrap_or_default();
        let news = self.channels.news.clone();
        let report = move |happened| drop(news.send(News::Task(job, task, happened)));
        let started = task::start(order, attribute("local-uri"), attribute("rundir"), report);
        self.processes.extend(started.map(|process| ((job, task), process)));
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
    pub(super) fn task_news(&mut self, job: u64, task: u32, happened: Happened) {
        if !matches!(happened, Happened::Output(..)) {
            self.processes.remove(&(job, task));
        }
        if self.is_leader() {
            let effects = self.manager.report(job, task, happened);
            self.carry_out(effects);
        } else {
            self.send_up(&Upward::Task(job, task, happened));
        }
    }
}
