//! Answering clients.

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::core::Broker;
use super::log::Severity;
use super::state::State;
use crate::jobs::job::ClientId;
use crate::jobs::manager::Effect;
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
            let reply = Reply::failed("Upstream Flux broker is offline. Try again later.");
            self.tell((None, id), reply);
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
        let now = |reply| vec![Effect::Tell(client, reply)];
        let done = |value| now(Reply::Done(value));
        let effects = match request {
            Request::Attribute(name) => now(match self.setup.attributes.get(&name) {
                Some(value) => Reply::Done(json!(value)),
                None => Reply::failed("No such file or directory"),
            }),
            Request::State | Request::LeadState => done(self.own_state()),
            Request::Shutdown => now(self.shut_down()),
            Request::Jobs(scope) => done(self.jobs(scope)),
            Request::Eventlog(id) => done(self.manager.eventlog(id)),
            Request::Resources => done(self.manager.resources()),
            Request::ActiveJobs => done(json!(self.manager.active(None).len())),
            Request::Cleanup => done(json!(std::mem::replace(&mut self.has_cleanup, true))),
            Request::Drained => done(self.manager.drained_ranks()),
            Request::RunningOn(ranks, limit) => done(self.manager.running_on(&ranks, limit)),
            Request::Drain(ranks, reason) => now(self.manager.drain(&ranks, &reason)),
            Request::Undrain(ranks) => {
                let reply = now(self.manager.undrain(&ranks));
                reply.into_iter().chain(self.manager.schedule()).collect()
            }
            Request::Submit(spec) => {
                let (id, effects) = self.manager.submit(*spec);
                done(json!(id)).into_iter().chain(effects).collect()
            }
            Request::Watch { id, output } => self.manager.watch(client, id, output),
            Request::Wait(scope) => self.manager.wait(client, scope),
            Request::Idle(scope) => self.manager.idle(client, scope),
            Request::Kill(id, signal) => {
                done(Value::Null).into_iter().chain(self.manager.kill(id, signal)).collect()
            }
        };
        self.carry_out(effects);
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
            return Reply::failed(format!(
                "shutdown cannot be initiated in state {}",
                state.name()
            ));
        }
        if !self.is_leader() {
            return Reply::failed("shutdown may only be initiated on rank 0");
        }
        self.abort_run();
        Reply::Done(Value::Null)
    }
}
