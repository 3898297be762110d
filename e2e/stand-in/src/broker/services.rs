//! Answering clients.

use serde_json::{Value, json};
use std::mem;
use tokio::sync::mpsc::UnboundedSender;

use super::core::Broker;
use super::log::Severity;
use super::state::State;
use crate::jobs::job::ClientId;
use crate::jobs::spec::Scope;
use crate::overlay::wire::{Downward, Upward};
use crate::protocol::{Reply, Request};

impl Broker {
    /// A client of this broker's socket has gone.
    pub(super) fn client_gone(&mut self, id: u64) {
        self.clients.remove(&id);
        self.manager.forget((None, id));
        self.send_up(&Upward::RequestGone(id));
    }

    /// Somebody was turned away.
    pub(super) fn stranger(&self, user: u32) {
        let text = format!("client_authenticate: uid={user} no assigned roles");
        self.log_as("connector-local", Severity::Error, &text);
    }

    /// A client of this broker's socket asks something.
    pub(super) fn asked(&mut self, id: u64, request: Request, sender: UnboundedSender<Reply>) {
        self.clients.insert(id, sender);
        if self.is_leader() || request.is_local() {
            self.serve((None, id), request);
        } else if self.is_joined() && self.state() > State::Join {
            self.send_up(&Upward::Request(id, request));
        } else {
            let reason = "Upstream Flux broker is offline. Try again later.";
            self.tell((None, id), Reply::failed(reason));
        }
    }

    /// Sends part of an answer.
    pub(super) fn tell(&mut self, client: ClientId, reply: Reply) {
        match client {
            (Some(rank), id) => self.send_down(rank, &Downward::Reply(id, reply)),
            (None, id) => {
                let last = reply.is_last();
                if let Some(sender) = self.clients.get(&id) {
                    drop(sender.send(reply));
                }
                if last {
                    self.clients.remove(&id);
                }
            }
        }
    }

    /// Answers a request, now or later.
    pub(super) fn serve(&mut self, client: ClientId, request: Request) {
        let answer = match request {
            Request::Attribute(name) => match self.setup.attributes.get(&name) {
                Some(value) => Reply::Done(json!(value)),
                None => Reply::failed("No such file or directory"),
            },
            Request::State | Request::LeadState => Reply::Done(self.own_state()),
            Request::Shutdown => self.shut_down(),
            Request::Jobs(scope) => Reply::Done(self.jobs(scope)),
            Request::Eventlog(id) => Reply::Done(self.manager.eventlog(id)),
            Request::Resources => Reply::Done(self.manager.resources()),
            Request::ActiveJobs => Reply::Done(json!(self.manager.active(None).len())),
            Request::Cleanup => Reply::Done(json!(mem::replace(&mut self.has_cleanup, true))),
            Request::Drained => Reply::Done(self.manager.drained_ranks()),
            Request::RunningOn(ranks, limit) => Reply::Done(self.manager.running_on(&ranks, limit)),
            Request::Drain(ranks, reason) => self.manager.drain(&ranks, &reason),
            Request::Undrain(ranks) => {
                let reply = self.manager.undrain(&ranks);
                self.tell(client, reply);
                let effects = self.manager.schedule();
                return self.carry_out(effects);
            }
            Request::Submit(spec) => {
                let (id, effects) = self.manager.submit(*spec);
                self.tell(client, Reply::Done(json!(id)));
                return self.carry_out(effects);
            }
            Request::Watch { id, output } => {
                let effects = self.manager.watch(client, id, output);
                return self.carry_out(effects);
            }
            Request::Wait(scope) => {
                let effects = self.manager.wait(client, scope);
                return self.carry_out(effects);
            }
            Request::Idle(scope) => {
                let effects = self.manager.idle(client, scope);
                return self.carry_out(effects);
            }
        };
        self.tell(client, answer);
    }

    fn own_state(&self) -> Value {
        json!({
            "state": self.state().name(), "duration": self.in_state(), "size": self.setup.hosts.len(),
            "owner": nix::unistd::getuid().as_raw(),
        })
    }

    /// The jobs of a scope, those before that were restored.
    pub(super) fn jobs(&self, scope: Scope) -> Value {
        let old = self.restored.iter().filter(|_| scope.is_none());
        let old = old.flat_map(|jobs| jobs.as_array().cloned().unwrap_or_default());
        let new = self.manager.jobs.values().filter(|job| job.spec.scope == scope).map(|job| {
            let hosts: Vec<String> =
                job.allocation.cores.keys().map(|rank| self.host(*rank)).collect();
            job.to_json(&crate::resources::compress(&hosts))
        });
        old.chain(new).collect()
    }

    fn shut_down(&mut self) -> Reply {
        let state = self.state();
        if state != State::Run {
            let text = format!("shutdown cannot be initiated in state {}", state.name());
            return Reply::failed(text);
        }
        if !self.is_leader() {
            return Reply::failed("shutdown may only be initiated on rank 0");
        }
        self.abort_run();
        Reply::Done(Value::Null)
    }
}
