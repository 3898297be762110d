//! What goes wrong between a client and the server.

use super::refusal::Refusal;
use serde_json::Value;
use std::collections::BTreeMap;

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server refuses it with this code, and it has no effect.
    Refused(u16),
    /// It has its effect, and the answer is this code.
    Lost(u16),
    /// It has no effect, and no answer.
    Swallowed,
    /// It has its effect, and no answer.
    Unanswered,
}

/// The failure of one request to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// How many requests before it do not fail.
    pub after: usize,
    pub failure: Failure,
}

/// All that is to go wrong.
#[derive(Debug, Default)]
pub struct Faults {
    /// Answers to all writes to these paths.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    /// Objects that another client writes to these paths after the first read there.
    pub(crate) intruders: BTreeMap<String, Value>,
    /// Failures of requests to come; each counts from now on.
    pub requests: Vec<Fault>,
}

impl Faults {
    /// Counts a request and returns its failure, if it has one.
    pub(crate) fn take_next(&mut self) -> Option<Failure> {
        let now = self.requests.iter().position(|fault| fault.after == 0);
        for fault in &mut self.requests {
            fault.after = fault.after.saturating_sub(1);
        }
        now.map(|position| self.requests.remove(position).failure)
    }

    /// Takes the objects that somebody puts at `path`, or into the collection there, now that a client has read it.
    pub(crate) fn take_intruders(&mut self, path: &str) -> Vec<(String, Value)> {
        let is_there = |other: &str| {
            other == path || other.rsplit_once('/').is_some_and(|(inside, _)| inside == path)
        };
        self.intruders.extract_if(.., |other, _| is_there(other)).collect()
    }
}
