//! What goes wrong between the operator and its API server.

use super::refusal::Refusal;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is refused with this code, and has no effect.
    Refused(u16),
    /// It has its effect, and the answer is this code.
    Lost(u16),
    /// It has no effect, and no answer.
    Swallowed,
    /// It has its effect, and no answer.
    Unanswered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// How many requests before it go well.
    pub(crate) after: usize,
    pub(crate) failure: Failure,
}

#[derive(Default)]
pub(crate) struct Faults {
    /// Writes to these paths are refused.
    pub(crate) refusals: BTreeMap<String, Refusal>,
    /// What somebody puts at these paths as soon as the operator has read there.
    pub(crate) intruders: BTreeMap<String, Value>,
    /// What happens to some requests to come; each counts from now on.
    pub(crate) requests: Vec<Fault>,
}

impl Faults {
    /// Counts a request; the answer is what happens to it.
    pub(crate) fn next(&mut self) -> Option<Failure> {
        let now = self.requests.iter().position(|fault| fault.after == 0);
        for fault in &mut self.requests {
            fault.after = fault.after.saturating_sub(1);
        }
        now.map(|position| self.requests.remove(position).failure)
    }

    /// What is put at `path`, or into the collection there, now that it was read.
    pub(crate) fn intrusions(&mut self, path: &str) -> Vec<(String, Value)> {
        let is_there = |other: &str| {
            other == path || other.rsplit_once('/').is_some_and(|(inside, _)| inside == path)
        };
        self.intruders.extract_if(.., |other, _| is_there(other)).collect()
    }
}
