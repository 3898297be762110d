//! Messages of parent and children, and the answers.

use super::core::{Broker, Severity};
use super::state::State;
use crate::overlay::wire::{Downward, Upward};
use crate::release::release;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc::UnboundedSender;

/// Sends on a link, now or when it is there. That a link is gone is reported by itself.
fn send(sender: &UnboundedSender<Bytes>, message: &impl Serialize) {
    if let Ok(bytes) = serde_json::to_vec(message) {
        drop(sender.send(Bytes::from(bytes)));
    }
}

/// A release without the last of its numbers, which brokers have to have in common.
fn series(release: &str) -> Option<&str> {
    release.rsplit_once('.').map(|(series, _)| series)
}

impl Broker {
    pub(super) fn send_up(&self, message: &Upward) {
        if let Some(sender) = self.uplink.as_ref().filter(|_| !self.parent_failed) {
            send(sender, message);
        }
    }

    pub(super) fn is_joined(&self) -> bool {
        self.parent_state.is_some() && !self.parent_failed
    }

    pub(crate) fn on_parent_message(&mut self, message: Option<Bytes>) {
        let Some(bytes) = message else {
            // A worker that loses its parent connects again, and reports that to the lead.
            if self.is_joined() {
                self.send_up(&Upward::Back);
            }
            return;
        };
        let Ok(message) = serde_json::from_slice(&bytes) else { return };
        match message {
            Downward::Failed(text) => {
                self.log_as("overlay", Severity::Critical, &text);
                self.fail_with(1);
                self.parent_failed = true;
                self.look_at_parent();
            }
            Downward::State(state) => {
                self.parent_state = Some(state);
                self.look_at_parent();
            }
            Downward::GoodbyeAnswer => self.post("goodbye"),
            Downward::Order(order) => self.obey(order),
            Downward::Reply(id, reply) => {
                if let Some(client) = self.clients.remove(&id) {
                    let more = !reply.is_last();
                    client(reply);
                    self.clients.extend(more.then_some((id, client)));
                }
            }
        }
    }

    /// Posts what follows from the parent's state in the own one.
    pub(super) fn look_at_parent(&mut self) {
        let state = self.parent_state.unwrap_or(State::LoadBuiltins);
        let event = self.state.event_of_parent(state, self.parent_failed);
        if let Some(event) = event.filter(|_| !self.is_leader()) {
            self.post(event);
        }
    }

    pub(crate) fn child_connected(&mut self, link: u64, sender: UnboundedSender<Bytes>) {
        self.links.insert(link, sender);
    }

    pub(crate) fn child_closed(&mut self, link: u64) {
        self.links.remove(&link);
        if let Some(rank) = self.rank_of(link) {
            let text = format!("{} (rank {rank}) failed", self.host(rank));
            self.log_as("overlay", Severity::Error, &text);
            self.child_gone(rank);
        }
    }

    fn rank_of(&self, link: u64) -> Option<u32> {
        self.children.iter().find(|(_, of_rank)| **of_rank == link).map(|(rank, _)| *rank)
    }

    pub(crate) fn on_child_message(&mut self, link: u64, message: Option<Bytes>) {
        let message = message.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(message) = message else { return };
        match (message, self.rank_of(link)) {
            (Upward::Hello(rank, hostname, release), None) if self.state < State::Cleanup => {
                self.greet(link, rank, &hostname, &release);
            }
            (message, Some(rank)) => self.on_rank_message(rank, link, message),
            (_, None) => {
                let text = format!("{} (rank 0) sent disconnect control message", self.host(0));
                self.send_down(link, &Downward::Failed(text));
            }
        }
    }

    fn on_rank_message(&mut self, rank: u32, link: u64, message: Upward) {
        let Some(sender) = self.links.get(&link).cloned() else { return };
        match message {
            Upward::Hello(..) | Upward::Back => {}
            Upward::Online => {
                let orders = move |order| send(&sender, &Downward::Order(order));
                self.came_online(rank, Box::new(orders));
            }
            Upward::Goodbye => {
                send(&sender, &Downward::GoodbyeAnswer);
                self.child_gone(rank);
            }
            Upward::Task(job, task, happened) => self.task_news(job, task, happened),
            Upward::Request(id, request) => {
                let client = move |reply| send(&sender, &Downward::Reply(id, reply));
                self.serve(request, Box::new(client));
            }
        }
    }

    fn greet(&mut self, link: u64, rank: u32, hostname: &str, others: &str) {
        let configured = self.host(rank);
        if configured != hostname || rank == 0 {
            let text = format!(
                "rejecting connection from {hostname} (rank {rank}): \
                 {configured} is configured as rank {rank}: mismatched config?"
            );
            self.log_as("overlay", Severity::Error, &text);
            self.send_down(link, &Downward::Failed("overlay.hello: Invalid argument".to_owned()));
            return;
        }
        // The worker may have crashed, unnoticed, and come again.
        self.child_gone(rank);
        let own = release();
        if series(others) != series(own) {
            // The lead logs nothing about it, as in real Flux.
            let text = format!("client ({others}) version mismatched with server ({own})");
            self.send_down(link, &Downward::Failed(format!("overlay.hello: {text}")));
            return;
        }
        self.children.insert(rank, link);
        self.send_down(link, &Downward::State(self.state));
    }

    fn send_down(&self, link: u64, message: &Downward) {
        if let Some(sender) = self.links.get(&link) {
            send(sender, message);
        }
    }

    pub(super) fn send_state_to_children(&self) {
        for link in self.children.values() {
            self.send_down(*link, &Downward::State(self.state));
        }
    }

    fn child_gone(&mut self, rank: u32) {
        self.children.remove(&rank);
        self.went_offline(rank);
        if self.state == State::Shutdown && self.children.is_empty() {
            self.post("children-complete");
        }
    }
}
