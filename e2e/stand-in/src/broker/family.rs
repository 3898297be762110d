//! Parent and children: who is there, and how they are reached.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use super::state::State;
use crate::overlay::wire::{Downward, Upward};

/// The parent, on a worker.
pub(super) struct Parent {
    sender: UnboundedSender<Bytes>,
    /// The hello was answered.
    pub(super) responded: bool,
    /// The parent refused the hello or sent us away.
    pub(super) failed: bool,
    /// Its state, once known.
    pub(super) state: Option<State>,
}

impl Parent {
    /// A parent that has not answered yet.
    pub(super) fn new(sender: UnboundedSender<Bytes>) -> Self {
        Self { sender, responded: false, failed: false, state: None }
    }

    /// Sends to it, now or when there is a link.
    pub(super) fn send(&self, message: &Upward) {
        if let Ok(bytes) = serde_json::to_vec(message) {
            // The receiver lives as long as the broker.
            drop(self.sender.send(Bytes::from(bytes)));
        }
    }

    /// Whether it has accepted us.
    pub(super) fn is_joined(&self) -> bool {
        self.responded && !self.failed
    }
}

/// The children, on the lead: all links by number, and the link of each rank that is online.
#[derive(Default)]
pub(super) struct Children {
    pub(super) links: HashMap<u64, UnboundedSender<Bytes>>,
    /// By rank.
    pub(super) online: BTreeMap<u32, u64>,
    /// New ones are sent away.
    pub(super) spurn: bool,
}

impl Children {
    /// The rank of a link.
    pub(super) fn rank_of(&self, link: u64) -> Option<u32> {
        self.online.iter().find(|(_, of_rank)| **of_rank == link).map(|(rank, _)| *rank)
    }

    /// Sends on a link.
    pub(super) fn send(&self, link: u64, message: &Downward) {
        if let (Some(sender), Ok(bytes)) = (self.links.get(&link), serde_json::to_vec(message)) {
            // That a link is gone is reported by itself.
            drop(sender.send(Bytes::from(bytes)));
        }
    }
}
