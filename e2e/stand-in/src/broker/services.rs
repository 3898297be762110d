//! Requests of clients and of the job manager to a broker.

use super::core::Broker;
use super::state::State;
use crate::jobs::job::{Job, JobState};
use crate::jobs::task::{self, Happened, Order};
use crate::overlay::wire::Upward;
use crate::protocol::{Client, Reply, Request};
use crate::text;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::Duration;

/// Time between SIGTERM and SIGKILL, unless configured.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

impl Broker {
    pub(super) fn asked(&mut self, request: Request, client: Client) {
        if self.is_leader() || request.is_local() {
            self.serve(request, client);
        } else if self.is_joined() && self.state > State::Join {
            self.last_client += 1;
            self.clients.insert(self.last_client, client);
            self.send_up(&Upward::Request(self.last_client, request));
        } else {
            client(Reply::failed("Upstream Flux broker is offline. Try again later."));
        }
    }

    pub(super) fn serve(&mut self, request: Request, client: Client) {
        let manager = &mut self.manager;
        let reply = match request {
            Request::Attribute(name) => match self.attributes.get(&name) {
                Some(value) => Reply::Done(json!(value)),
                None => Reply::failed("No such file or directory"),
            },
            Request::State | Request::LeadState => Reply::Done(json!({
                "state": self.state, "duration": self.since.elapsed().as_secs_f64(),
            })),
            Request::Jobs(scope) => Reply::Done(manager.of(scope).map(Job::to_json).collect()),
            Request::Newest(most) => {
                let newest = manager.of(None).rev().map(|job| job.id).take(most);
                Reply::Done(json!({ "jobs": newest.collect::<Vec<_>>() }))
            }
            Request::ActiveJobs => {
                let active = manager.of(None).filter(|job| job.state != JobState::Inactive);
                Reply::Done(json!({ "active_jobs": active.count() }))
            }
            Request::Eventlog(id) => {
                Reply::Done(manager.jobs.get(&id).map_or(Value::Null, Job::events))
            }
            Request::TaskHost(id, task) => {
                let tasks = manager.jobs.get(&id).map(|job| &job.allocation.tasks);
                let rank = tasks.and_then(|ranks| ranks.get(task)).copied();
                let host = rank.map(|rank| Reply::Done(json!(self.host(rank))));
                host.unwrap_or_else(|| Reply::failed("Invalid argument"))
            }
            Request::List(all) => {
                let jobs = manager.of(None).filter(|job| all || job.state != JobState::Inactive);
                Reply::Done(json!({ "jobs": jobs.map(Job::listed).collect::<Vec<_>>() }))
            }
            Request::Allocated => Reply::Done(manager.allocated()),
            Request::Resources => Reply::Done(manager.resources()),
            Request::Cleanup => {
                self.has_cleanup = true;
                Reply::Done(Value::Null)
            }
            Request::Shutdown => self.shut_down(),
            Request::Drained => Reply::Done(manager.drained_ranks()),
            Request::RunningOn(rank, limit) => Reply::Done(manager.running_on(rank, limit)),
            Request::Drain(rank, reason) => manager.drain(rank, reason),
            Request::Submit(spec) => Reply::Done(json!(manager.submit(*spec))),
            Request::Kill(id, signal) => manager.kill(id, signal),
            Request::Wait(wait) => return manager.wait(wait, client),
        };
        client(reply);
    }

    fn shut_down(&mut self) -> Reply {
        if !self.is_leader() {
            return Reply::failed("shutdown may only be initiated on rank 0");
        }
        if self.state != State::Run {
            let state = self.state.name();
            return Reply::failed(format!("shutdown cannot be initiated in state {state}"));
        }
        self.post("shutdown");
        Reply::Done(Value::Null)
    }

    pub(super) fn obey(&mut self, order: Order) {
        match order {
            Order::Start(order) => {
                let (job, task) = (order.job, order.task);
                let attribute = |name: &str| self.attributes.get(name).map_or("", String::as_str);
                let mailbox = self.mailbox.clone();
                let report = move |happened| {
                    mailbox.report(move |broker| broker.task_news(job, task, happened));
                };
                let (uri, rundir) = (attribute("local-uri"), attribute("rundir"));
                let started = task::start(&order, uri, rundir, report);
                self.processes.extend(started.map(|process| ((job, task), process)));
            }
            Order::Cancel(job) => {
                self.signal_tasks(job, Signal::SIGTERM);
                let limit = self.config.exec.kill_timeout.as_deref();
                let limit = limit.and_then(text::duration).unwrap_or(KILL_TIMEOUT);
                self.later(limit, move |broker| broker.signal_tasks(job, Signal::SIGKILL));
            }
            Order::Signal(job, signal) => {
                if let Ok(signal) = Signal::try_from(signal) {
                    self.signal_tasks(job, signal);
                }
            }
        }
    }

    pub(super) fn signal_tasks(&self, job: u64, signal: Signal) {
        for ((owner, _), process) in &self.processes {
            if let Some(process) = i32::try_from(*process).ok().filter(|_| *owner == job) {
                // A task that has just ended cannot be signalled.
                let _ = kill(Pid::from_raw(-process), signal);
            }
        }
    }

    /// Passes an event of a task on: a worker sends it to the lead, the lead to its job manager.
    pub(super) fn task_news(&mut self, job: u64, task: u32, happened: Happened) {
        if !matches!(happened, Happened::Output(..)) {
            self.processes.remove(&(job, task));
        }
        if self.is_leader() {
            self.manager.report(job, task, happened);
        } else {
            self.send_up(&Upward::Task(job, task, happened));
        }
    }
}
