//! What is measured beside each other, and in which order.

use clap::ValueEnum;
use serde::Serialize;

/// A way to run `true` on some pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// An Indexed Job of `true`, without Flux.
    Bare,
    /// A Job of brokers, written by hand, which mounts the view.
    MountedByHand,
    /// The same, but an init container copies the view.
    CopiedByHand,
    /// A MiniCluster of this operator with `install: Image`, from an image that has view and agent.
    Mounted,
    /// The same with `install: Copy`, from the image of the view and that of the agent.
    Copied,
    /// The same from an image that has both.
    CopiedFromOne,
    /// A MiniCluster of the Go operator.
    Peer,
}

impl Contender {
    /// All of them, or all but the Go operator.
    pub(super) fn all(with_peer: bool) -> Vec<Self> {
        let mut all = vec![
            Self::Bare,
            Self::MountedByHand,
            Self::CopiedByHand,
            Self::Mounted,
            Self::Copied,
            Self::CopiedFromOne,
            Self::Peer,
        ];
        all.retain(|it| with_peer || *it != Self::Peer);
        all
    }

    /// In tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare Job of `true`",
            Self::MountedByHand => "by hand, mounted",
            Self::CopiedByHand => "by hand, copied",
            Self::Mounted => "this operator, mounted",
            Self::Copied => "this operator, copied from two images",
            Self::CopiedFromOne => "this operator, copied from one image",
            Self::Peer => "the Go operator",
        }
    }

    /// Whether this project's operator runs it.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Mounted | Self::Copied | Self::CopiedFromOne)
    }
}

/// The contenders in the order of a round: each round begins with another one, and every second one goes
/// backwards, so that nobody always comes after the same one.
pub(super) fn order(contenders: &[Contender], round: usize) -> Vec<Contender> {
    let mut order = contenders.to_vec();
    if round % 2 == 1 {
        order.reverse();
    }
    order.rotate_left((round / 2).checked_rem(contenders.len()).unwrap_or_default());
    order
}

/// The first start of a name, or the second one right after the first was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Start {
    /// In a new namespace.
    First,
    /// In the same namespace, under the same name.
    Again,
}

impl Start {
    /// Both, in their order.
    pub(super) const BOTH: [Self; 2] = [Self::First, Self::Again];

    /// In tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Again => "again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_all_contenders_and_begins_with_another_one() {
        for all in [true, false].map(Contender::all) {
            let orders: Vec<_> = (0..all.len()).map(|round| order(&all, round)).collect();
            for order in &orders {
                assert!(all.iter().all(|it| order.contains(it)) && order.len() == all.len());
            }
            let begins = |it: &&Contender| orders.iter().any(|order| order.first() == Some(*it));
            assert_eq!(all.iter().filter(begins).count(), all.len());
        }
        assert_eq!(order(&[], 3), []);
    }

    #[test]
    fn without_its_program_the_go_operator_is_no_contender() {
        assert!(!Contender::all(false).contains(&Contender::Peer));
    }
}
