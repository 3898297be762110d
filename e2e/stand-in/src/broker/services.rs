//! Answering clients.

use serde_json::{Value, json};

use super::core::Broker;
use super::local::ClientNews;
use super::log::Severity;
use super::state::State;
use super::status::Status;
use crate::jobs::job::{ClientId, Exception};
use crate::jobs::queries::targets as targets_of;
use crate::overlay::wire::{Downward, Upward};
use crate::protocol::{Reply, Request};
use crate::text::{idset, jobid};

impl Broker {
    /// A client of this broker's socket.
    pub(super) fn client_news(&mut self, news: ClientNews) {
        match news {
            ClientNews::Asked { id, request, sender } => {
                self.clients.insert(id, sender);
                self.asked(id, request);
            }
            ClientNews::Gone(id) => {
                self.clients.remove(&id);
                self.client_gone((None, id));
                self.send_up_if_joined(&Upward::RequestGone { id });
            }
            ClientNews::Stranger(user) => {
                let text = format!("client_authenticate: uid={user} no assigned roles");
                self.log_as("connector-local", Severity::Error, &text);
            }
        }
    }

    fn asked(&mut self, id: u64, request: Request) {
        if self.is_leader() || request.is_local() {
            self.serve((None, id), request);
            return;
        }
        let joined = self.parent.as_ref().is_some_and(|parent| parent.responded && !parent.failed);
        if joined && self.state() > State::Join {
            self.send_up(&Upward::Request { id, request });
        } else {
            let reason = "Upstream Flux broker is offline. Try again later.";
            self.tell((None, id), Reply::failed(reason));
        }
    }

    /// Sends part of an answer.
    pub(super) fn tell(&mut self, client: ClientId, reply: Reply) {
        match client {
            (None, id) => {
                let last = reply.is_last();
                if let Some(sender) = self.clients.get(&id) {
                    drop(sender.send(reply));
                }
                if last {
                    self.clients.remove(&id);
                }
            }
            (Some(rank), id) => self.send_down(rank, &Downward::Reply { id, reply }),
        }
    }

    /// A client does not want its answer any more.
    pub(super) fn client_gone(&mut self, client: ClientId) {
        self.manager.forget(client);
        self.overlay_waiters.retain(|(waiting, _)| *waiting != client);
        if self.shutdown_client.is_some_and(|(following, _)| following == client) {
            self.shutdown_client = None;
        }
    }

    /// Answers a request, now or later.
    pub(super) fn serve(&mut self, client: ClientId, request: Request) {
        let answer = match request {
            Request::Attribute { name } => self.attribute(&name),
            Request::SetAttribute { name, value, force } => {
                self.set_attribute(&name, &value, force)
            }
            Request::Attributes => Ok(json!(self.attributes.all())),
            Request::State => Ok(self.own_state()),
            Request::Summary => Ok(self.summary()),
            Request::Overlay { wait } => return self.serve_overlay(client, wait),
            Request::Shutdown { background, level } => {
                return self.serve_shutdown(client, background, level);
            }
            Request::Submit(spec) => {
                return match self.manager.submit(*spec) {
                    Ok((id, effects)) => {
                        self.tell(client, Reply::Done(json!({ "id": id })));
                        self.carry_out(effects);
                    }
                    Err(reason) => self.tell(client, Reply::failed(reason)),
                };
            }
            Request::Watch { id, output } => {
                let effects = self.manager.watch(client, id, output);
                return self.carry_out(effects);
            }
            Request::Wait { id, scope } => {
                let effects = self.manager.wait(client, id, scope);
                return self.carry_out(effects);
            }
            Request::Jobs { scope } => Ok(self.jobs(scope)),
            Request::Eventlog { id } => Ok(self.manager.eventlog(id)),
            Request::Cancel { ids, user, scope } => self.cancel(ids, user, scope),
            Request::Queue(action) => {
                let (value, effects) = self.manager.queue(action);
                self.carry_out(effects);
                Ok(value)
            }
            Request::Idle { drain, scope } => {
                let effects = self.manager.idle(client, drain, scope);
                return self.carry_out(effects);
            }
            Request::Resources => Ok(self.manager.resources()),
            Request::Drain { targets, reason, force } => self.drain(targets, &reason, force),
            Request::Undrain { targets } => self.undrain(&targets),
            Request::Content => Ok(self.content()),
        };
        let reply = match answer {
            Ok(value) => Reply::Done(value),
            Err(reason) => Reply::failed(reason),
        };
        self.tell(client, reply);
    }

    fn attribute(&self, name: &str) -> Result<Value, String> {
        match self.attributes.get(name) {
            Some(value) => Ok(json!(value)),
            None => Err("No such file or directory".to_owned()),
        }
    }

    fn set_attribute(&mut self, name: &str, value: &str, force: bool) -> Result<Value, String> {
        let level = value.parse::<u8>().ok().filter(|level| *level <= 7);
        if name == "log-stderr-level" {
            self.logger.set_level(level.ok_or("Invalid argument")?);
        }
        self.attributes.update(name, value, force).map_err(|error| error.to_string())?;
        Ok(Value::Null)
    }

    fn own_state(&self) -> Value {
        json!({
            "state": self.state().name(), "duration": self.in_state(), "size": self.hosts.len(),
            "owner": self.attributes.get("security.owner"), "level": 0,
        })
    }

    fn summary(&self) -> Value {
        json!({
            "starttime": self.attributes.get("broker.starttime"),
            "offline": self.hosts.len() - self.manager.online.len(),
            "drained": self.manager.drained.len(),
            "disabled": self.manager.disabled,
            "stopped": self.manager.stopped,
        })
    }

    /// The jobs of a scope, oldest first; in the instance itself after those that were restored.
    pub(super) fn jobs(&self, scope: Option<u64>) -> Value {
        let old = self.restored.iter().filter(|_| scope.is_none());
        let old = old.flat_map(|content| content["jobs"].as_array().cloned().unwrap_or_default());
        let new = self.manager.jobs.values().filter(|job| job.spec.scope == scope).map(|job| {
            let mut value = job.to_json();
            if let Some(ranks) = value["ranks"].as_str().and_then(idset::decode) {
                let hosts: Vec<String> = ranks.iter().map(|rank| self.host(*rank)).collect();
                value["nodelist"] = json!(crate::resources::compress(&hosts));
            }
            value
        });
        json!({ "jobs": old.chain(new).collect::<Vec<_>>() })
    }

    fn cancel(&mut self, ids: Vec<u64>, user: u32, scope: Option<u64>) -> Result<Value, String> {
        let ids = if ids.is_empty() {
            let own = |id: &u64| self.manager.jobs.get(id).is_some_and(|job| job.spec.user == user);
            self.manager.active(scope).into_iter().filter(own).collect()
        } else {
            ids
        };
        for id in &ids {
            if !self.manager.jobs.contains_key(id) {
                return Err(format!("{}: unknown job id", jobid::encode(*id)));
            }
            if !self.manager.active(scope).contains(id) {
                return Err(format!("{}: job is inactive", jobid::encode(*id)));
            }
        }
        for id in &ids {
            let exception = Exception { kind: "cancel", note: String::new() };
            let effects = self.manager.raise(*id, exception);
            self.carry_out(effects);
        }
        Ok(json!({ "count": ids.len() }))
    }

    fn drain(
        &mut self,
        targets: Option<String>,
        reason: &str,
        force: bool,
    ) -> Result<Value, String> {
        let Some(targets) = targets else {
            let drained = self.manager.drained.iter().map(|(rank, reason)| {
                json!({ "rank": rank, "host": self.host(*rank), "reason": reason })
            });
            return Ok(json!(drained.collect::<Vec<_>>()));
        };
        let ranks = targets_of(&targets, &self.hosts)?;
        let list = |ranks: Vec<u32>| idset::encode(ranks);
        let excluded: Vec<u32> =
            ranks.iter().copied().filter(|rank| self.manager.excluded.contains(rank)).collect();
        if !excluded.is_empty() {
            return Err(format!("drain: rank(s) {} are excluded", list(excluded)));
        }
        let already: Vec<u32> =
            ranks.iter().copied().filter(|rank| self.manager.drained.contains_key(rank)).collect();
        if !already.is_empty() && !force {
            return Err(format!("drain: rank(s) {} already drained", list(already)));
        }
        for rank in ranks {
            self.manager.drained.insert(rank, reason.to_owned());
        }
        Ok(json!([]))
    }

    fn undrain(&mut self, targets: &str) -> Result<Value, String> {
        let ranks = targets_of(targets, &self.hosts)?;
        if let Some(rank) = ranks.iter().find(|rank| !self.manager.drained.contains_key(rank)) {
            return Err(format!("undrain: rank {rank} not drained"));
        }
        for rank in ranks {
            self.manager.drained.remove(&rank);
        }
        let effects = self.manager.schedule();
        self.carry_out(effects);
        Ok(Value::Null)
    }

    fn serve_overlay(&mut self, client: ClientId, wait: Option<String>) {
        match wait {
            Some(word) if !Status::is_name(&word) => {
                self.tell(client, Reply::failed("invalid --wait state"));
            }
            Some(word) => {
                self.overlay_waiters.push((client, word));
                self.overlay_changed();
            }
            None => {
                let value = self.overlay();
                self.tell(client, Reply::Done(value));
            }
        }
    }

    /// Answers those who wait for the overlay to be in a certain status.
    pub(super) fn overlay_changed(&mut self) {
        let status = self.overlay_status().name();
        let (met, rest) = std::mem::take(&mut self.overlay_waiters)
            .into_iter()
            .partition(|(_, word)| word == status);
        self.overlay_waiters = rest;
        let met: Vec<(ClientId, String)> = met;
        for (client, _) in met {
            let value = self.overlay();
            self.tell(client, Reply::Done(value));
        }
    }

    fn overlay_status(&self) -> Status {
        Status::of_children(self.children.known.values().map(|child| child.status))
    }

    fn overlay(&self) -> Value {
        let children = self.children.known.iter().map(|(rank, child)| {
            json!({
                "rank": rank, "host": self.host(*rank), "status": child.status.name(),
                "duration": child.since.elapsed().as_secs_f64(), "error": child.error,
            })
        });
        json!({
            "host": self.host(0), "status": self.overlay_status().name(),
            "children": children.collect::<Vec<_>>(),
        })
    }

    fn serve_shutdown(&mut self, client: ClientId, background: bool, level: u8) {
        let state = self.state();
        let refusal = if self.shutdown_client.is_some() {
            Some("shutdown is already in progress".to_owned())
        } else if state != State::Run {
            Some(format!("shutdown cannot be initiated in state {}", state.name()))
        } else if !self.is_leader() {
            Some("shutdown may only be initiated on rank 0".to_owned())
        } else {
            None
        };
        if let Some(reason) = refusal {
            self.tell(client, Reply::failed(reason));
            return;
        }
        if background {
            self.tell(client, Reply::Done(Value::Null));
        } else {
            self.shutdown_client = Some((client, level));
        }
        if self.norestart_or(0) > 0 {
            self.exit_code = self.norestart_or(0);
        }
        self.abort_run();
    }

    /// Whoever followed the shutdown has seen it.
    pub(super) fn finish_shutdown_client(&mut self) {
        if let Some((client, _)) = self.shutdown_client.take() {
            self.tell(client, Reply::Done(Value::Null));
        }
    }
}
