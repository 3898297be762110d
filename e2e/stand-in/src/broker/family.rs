//! Parent and children: who is there, and what they say.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::core::Broker;
use super::deadlines::Deadline;
use super::log::Severity;
use super::state::{self, State};
use super::status::{Child, Status};
use crate::overlay::link::LinkEvent;
use crate::overlay::listen::LinkNews;
use crate::overlay::wire::{Downward, Upward, VERSION};

/// How often the lead speaks to its children, and a worker looks at its silence.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

/// The parent, on a worker.
pub(super) struct Parent {
    sender: UnboundedSender<Bytes>,
    last_sent: Instant,
    /// The hello was answered.
    pub(super) responded: bool,
    /// The parent refused the hello or sent us away.
    pub(super) failed: bool,
    /// The parent sent us away.
    pub(super) offline: bool,
    /// Its state, once known.
    pub(super) state: Option<State>,
}

impl Parent {
    /// A parent that has not answered yet.
    pub(super) fn new(sender: UnboundedSender<Bytes>) -> Self {
        let last_sent = Instant::now();
        Self { sender, last_sent, responded: false, failed: false, offline: false, state: None }
    }
}

struct Link {
    sender: UnboundedSender<Bytes>,
    uuid: Option<String>,
}

/// The children, on the lead.
#[derive(Default)]
pub(super) struct Children {
    links: HashMap<u64, Link>,
    /// By rank.
    pub(super) known: BTreeMap<u32, Child>,
    /// New ones are sent away.
    pub(super) spurn: bool,
}

impl Children {
    /// The children of `rank` in a flat tree of `size` brokers.
    pub(super) fn new(rank: u32, size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let ranks = if rank == 0 { 1..size } else { 0..0 };
        let known = ranks.map(|rank| (rank, Child::default())).collect();
        Self { known, ..Self::default() }
    }

    /// How many are online.
    pub(super) fn online(&self) -> usize {
        self.known.values().filter(|child| child.is_online()).count()
    }

    fn rank_of(&self, uuid: &str) -> Option<u32> {
        let is_it = |child: &Child| child.is_online() && child.uuid.as_deref() == Some(uuid);
        self.known.iter().find(|(_, child)| is_it(child)).map(|(rank, _)| *rank)
    }

    /// Sends on the link of a uuid; false if there is none.
    fn send(&self, uuid: &str, message: &Downward) -> bool {
        let Ok(bytes) = serde_json::to_vec(message) else { return false };
        let link = self.links.values().find(|link| link.uuid.as_deref() == Some(uuid));
        link.is_some_and(|link| link.sender.send(Bytes::from(bytes)).is_ok())
    }
}

impl Broker {
    /// Sends to the parent, now or when there is a link.
    pub(super) fn send_up(&mut self, message: &Upward) {
        let Some(parent) = self.parent.as_mut().filter(|parent| !parent.offline) else { return };
        if let Ok(bytes) = serde_json::to_vec(message) {
            parent.last_sent = Instant::now();
            // The receiver lives as long as the broker.
            drop(parent.sender.send(Bytes::from(bytes)));
        }
    }

    /// Sends to the parent only once it has accepted us.
    pub(super) fn send_up_if_joined(&mut self, message: &Upward) {
        if self.parent.as_ref().is_some_and(|parent| parent.responded && !parent.failed) {
            self.send_up(message);
        }
    }

    /// Something happened on the link to the parent.
    pub(super) fn parent_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Message(bytes) => match serde_json::from_slice(&bytes) {
                Ok(message) => self.told_by_parent(message),
                Err(error) => {
                    let text = format!("DROP upstream message: {error}");
                    self.log_as("overlay", Severity::Error, &text);
                }
            },
            LinkEvent::Unresolved { host, reason } => {
                let text = format!("unable to resolve upstream peer {host}: {reason}");
                self.log_as("overlay", Severity::Warning, &text);
            }
            // A worker does not mind losing its parent: it connects again.
            LinkEvent::Ready { .. } | LinkEvent::Refused | LinkEvent::Closed => {}
        }
    }

    fn told_by_parent(&mut self, message: Downward) {
        match message {
            Downward::Welcome => self.change_parent(|parent| parent.responded = true),
            Downward::Refused { reason } => {
                self.log_as("overlay", Severity::Error, &format!("overlay.hello: {reason}"));
                self.parent_failed(false);
            }
            Downward::Disconnect => {
                let lead = self.hosts.first().cloned().unwrap_or_default();
                let text = format!("{lead} (rank 0) sent disconnect control message");
                self.log_as("overlay", Severity::Critical, &text);
                self.parent_failed(true);
            }
            Downward::State(state) => self.change_parent(|parent| parent.state = Some(state)),
            Downward::Config(config) => self.configured(config),
            Downward::Farewell => self.post("goodbye"),
            Downward::Heartbeat => {}
            Downward::Start(order) => self.start_task(&order),
            Downward::Signal { job, signal } => self.signal_tasks(job, signal),
            Downward::Write(order) => self.write_output(&order),
            Downward::Reply { id, reply } => self.tell((None, id), reply),
        }
    }

    fn change_parent(&mut self, change: impl FnOnce(&mut Parent)) {
        if let Some(parent) = &mut self.parent {
            change(parent);
        }
        self.look_at_parent();
    }

    fn parent_failed(&mut self, offline: bool) {
        if let Some(parent) = &mut self.parent {
            parent.responded = true;
            parent.failed = true;
            parent.offline |= offline;
        }
        self.fail_with(1);
        self.look_at_parent();
    }

    /// Posts what follows from the parent's state in the own one.
    pub(super) fn look_at_parent(&mut self) {
        let Some(parent) = &self.parent else { return };
        let known = parent.state.filter(|_| parent.responded).unwrap_or(State::LoadBuiltins);
        if let Some(event) = state::event_of_parent(self.state(), known, parent.failed) {
            self.post(event);
        }
    }

    /// Says goodbye to the parent, if it would hear it.
    pub(super) fn take_leave(&mut self) {
        let heard = self.parent.as_ref().is_some_and(|parent| parent.responded && !parent.failed);
        if heard {
            self.send_up(&Upward::Goodbye);
            self.deadlines.set(Duration::from_mins(1), Deadline::GoodbyeTimeout);
            return;
        }
        if self.parent.is_some() {
            let text = "cannot send overlay.goodbye because overlay.hello is still in progress";
            self.log_as("overlay", Severity::Error, text);
        }
        self.post("goodbye");
    }

    /// Something happened on a child's link.
    pub(super) fn link_news(&mut self, number: u64, news: LinkNews) {
        match news {
            LinkNews::Opened(sender) => {
                self.children.links.insert(number, Link { sender, uuid: None });
            }
            LinkNews::Event(LinkEvent::Ready { identity }) => {
                // A peer that connects again leaves its old link to die.
                for link in self.children.links.values_mut() {
                    if link.uuid.as_deref() == Some(&identity) {
                        link.uuid = None;
                    }
                }
                if let Some(link) = self.children.links.get_mut(&number) {
                    link.uuid = Some(identity);
                }
            }
            LinkNews::Event(LinkEvent::Message(bytes)) => {
                let uuid = self.children.links.get(&number).and_then(|link| link.uuid.clone());
                match (uuid, serde_json::from_slice(&bytes)) {
                    (Some(uuid), Ok(message)) => self.told_by_child(&uuid, message),
                    _ => self.log_as("overlay", Severity::Error, "DROP downstream message"),
                }
            }
            LinkNews::Event(LinkEvent::Refused) => {
                self.log_as("overlay", Severity::Error, "overlay auth No access");
            }
            LinkNews::Event(LinkEvent::Closed) => {
                self.children.links.remove(&number);
            }
            LinkNews::Event(LinkEvent::Unresolved { .. }) => {}
        }
    }

    fn told_by_child(&mut self, uuid: &str, message: Upward) {
        let Some(rank) = self.children.rank_of(uuid) else {
            if let Upward::Hello { rank, hostname, version } = message
                && !self.children.spurn
            {
                self.greet(uuid, rank, &hostname, version);
            } else {
                self.children.send(uuid, &Downward::Disconnect);
            }
            return;
        };
        match message {
            Upward::Hello { rank, hostname, version } => {
                self.greet(uuid, rank, &hostname, version);
            }
            Upward::Heartbeat => {}
            Upward::ConfigWanted => {
                let config = self.config.clone();
                self.send_down(rank, &Downward::Config(config));
            }
            Upward::Online { cores, drain } => self.came_online(rank, cores, drain),
            Upward::Goodbye => {
                self.send_down(rank, &Downward::Farewell);
                self.child_gone(rank, Status::Offline, "administrative shutdown");
            }
            Upward::Log(line) => {
                self.follow_log(&line);
                self.logger.received(&line);
            }
            Upward::Task(report) => self.task_report(report),
            Upward::Request { id, request } => self.serve((Some(rank), id), request),
            Upward::RequestGone { id } => self.client_gone((Some(rank), id)),
        }
    }

    /// Accepts or refuses a child's hello.
    fn greet(&mut self, uuid: &str, rank: u32, hostname: &str, version: (u8, u8, u8)) {
        let configured = self.host(rank);
        if configured != hostname {
            let text = format!(
                "rejecting connection from {hostname} (rank {rank}): \
                 {configured} is configured as rank {rank}: mismatched config?"
            );
            self.log_as("overlay", Severity::Error, &text);
            let reason = "Invalid argument".to_owned();
            self.children.send(uuid, &Downward::Refused { reason });
            return;
        }
        let Some(child) = self.children.known.get(&rank) else {
            let reason =
                format!("rank {rank} is not a child of rank {}: mismatched config?", self.rank);
            let text = format!("rejecting connection from {configured} (rank {rank}): {reason}");
            self.log_as("overlay", Severity::Error, &text);
            self.children.send(uuid, &Downward::Refused { reason });
            return;
        };
        let mut severity = Severity::Debug;
        if child.is_online() {
            let text = format!(
                "{configured} (rank {rank}) reconnected after crash, dropping old connection state"
            );
            self.log_as("overlay", Severity::Error, &text);
            self.child_gone(rank, Status::Lost, "");
            severity = Severity::Error;
        }
        if (version.0, version.1) != (VERSION.0, VERSION.1) {
            let dotted = |v: (u8, u8, u8)| format!("{}.{}.{}", v.0, v.1, v.2);
            let (client, server) = (dotted(version), dotted(VERSION));
            let reason = format!("client ({client}) version mismatched with server ({server})");
            self.children.send(uuid, &Downward::Refused { reason });
            return;
        }
        let child = Child {
            uuid: Some(uuid.to_owned()),
            status: Status::Full,
            since: Instant::now(),
            error: String::new(),
        };
        self.children.known.insert(rank, child);
        let text = format!("accepting connection from {configured} (rank {rank}) status full");
        self.log_as("overlay", severity, &text);
        self.send_down(rank, &Downward::Welcome);
        self.send_down(rank, &Downward::State(self.state()));
        self.overlay_changed();
    }

    /// Name of a rank.
    pub(super) fn host(&self, rank: u32) -> String {
        let index = usize::try_from(rank).unwrap_or(usize::MAX);
        self.hosts.get(index).cloned().unwrap_or_else(|| "(null)".to_owned())
    }

    /// Sends to an online child. One that cannot be reached is lost.
    pub(super) fn send_down(&mut self, rank: u32, message: &Downward) {
        let Some(child) = self.children.known.get(&rank).filter(|child| child.is_online()) else {
            return;
        };
        let reached = child.uuid.as_deref().is_some_and(|uuid| self.children.send(uuid, message));
        if !reached {
            let text = format!("{} (rank {rank}) failed", self.host(rank));
            self.log_as("overlay", Severity::Error, &text);
            self.child_gone(rank, Status::Lost, "lost connection");
        }
    }

    /// Tells every online child.
    pub(super) fn send_to_all(&mut self, message: &Downward) {
        let ranks: Vec<u32> = self.children.known.keys().copied().collect();
        for rank in ranks {
            self.send_down(rank, message);
        }
    }

    /// Children follow their parent's state.
    pub(super) fn tell_children_state(&mut self) {
        self.send_to_all(&Downward::State(self.state()));
    }

    fn child_gone(&mut self, rank: u32, status: Status, error: &str) {
        if let Some(child) = self.children.known.get_mut(&rank) {
            child.status = status;
            child.since = Instant::now();
            error.clone_into(&mut child.error);
        }
        self.overlay_changed();
        self.went_offline(rank);
        if self.state() == State::Shutdown && self.children.online() == 0 {
            self.post("children-complete");
        }
    }

    /// The regular look at the family.
    pub(super) fn heartbeat(&mut self) {
        self.deadlines.set(HEARTBEAT, Deadline::Heartbeat);
        if self.is_leader() {
            self.send_to_all(&Downward::Heartbeat);
        } else if self.parent.as_ref().is_some_and(|parent| {
            parent.responded && !parent.failed && parent.last_sent.elapsed() > self.torpid_min
        }) {
            self.send_up(&Upward::Heartbeat);
        }
    }
}
