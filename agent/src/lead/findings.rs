//! What keeps this pod from its lead, on one way to it or on all.

use flux_contract::obstacle::{Obstacle, ObstacleCause};

/// Gets a line for the log, and the obstacle that it is about.
pub(crate) type Report<'report> = dyn FnMut(&str, Obstacle) + 'report;

/// Why a route does not lead to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Findings {
    pub(super) text: String,
    pub(super) cause: ObstacleCause,
}

impl Findings {
    pub(super) fn obstacle(&self) -> Obstacle {
        Obstacle { cause: self.cause, message: self.text.clone() }
    }

    pub(super) fn add(&mut self, more: &Self) {
        let separator = if self.text.is_empty() || more.text.is_empty() { "" } else { "; " };
        self.text += separator;
        self.text += &more.text;
        self.cause = self.cause.max(more.cause);
    }
}
