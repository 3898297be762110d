//! The overlay's health as the lead sees it.

use std::time::Instant;

/// How a subtree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// All of it is online.
    Full,
    /// Some of it is offline.
    Partial,
    /// Some of it is lost.
    Degraded,
    /// It went away without a word.
    Lost,
    /// It has not come yet, or left in good order.
    Offline,
}

impl Status {
    /// The word Flux prints.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Degraded => "degraded",
            Self::Lost => "lost",
            Self::Offline => "offline",
        }
    }

    /// Whether a word is one of Flux's.
    pub(crate) fn is_name(word: &str) -> bool {
        ["full", "partial", "degraded", "lost", "offline"].contains(&word)
    }

    /// The status of a parent whose children are like this.
    pub(crate) fn of_children(children: impl IntoIterator<Item = Self>) -> Self {
        let mut partial = false;
        for child in children {
            match child {
                Self::Full => {}
                Self::Offline | Self::Partial => partial = true,
                Self::Lost | Self::Degraded => return Self::Degraded,
            }
        }
        if partial { Self::Partial } else { Self::Full }
    }
}

/// One child.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    /// Its uuid once it said hello.
    pub(crate) uuid: Option<String>,
    /// How it is.
    pub(crate) status: Status,
    /// Since when.
    pub(crate) since: Instant,
    /// Why it is not online.
    pub(crate) error: String,
}

impl Default for Child {
    fn default() -> Self {
        Self { uuid: None, status: Status::Offline, since: Instant::now(), error: String::new() }
    }
}

impl Child {
    /// Whether it can be talked to.
    pub(crate) fn is_online(&self) -> bool {
        self.status == Status::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_child_decides() {
        assert_eq!(Status::of_children([]), Status::Full);
        assert_eq!(Status::of_children([Status::Full, Status::Offline]), Status::Partial);
        assert_eq!(Status::of_children([Status::Lost, Status::Offline]), Status::Degraded);
    }
}
