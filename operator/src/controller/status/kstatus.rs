//! The conditions `Stalled` and `Reconciling`, which Flux CD, Helm and other tools read through kstatus. As kstatus
//! defines them, at most one of them is present, and only while it holds.

use super::conditions::{Conditions, kind};
use super::facts::Facts;
use flux_api::crd::{Reason, State};

/// Reasons of `Progressing` for an edit that never takes effect.
const NOT_TRIED_AGAIN: [Reason; 2] = [Reason::ChangeRefused, Reason::NotRunAgain];

/// Sets `Stalled` if the MiniCluster can never become as specified, and `Reconciling` while it waits for the end of a
/// command, the start of an instance, or a queue. Without both, kstatus reads `Ready`, which is true for a complete run
/// and a running instance, and absent when suspended as requested. The other conditions must be set before.
pub(super) fn kstatus(conditions: &mut Conditions, facts: &Facts<'_>) {
    let state = facts.state();
    let progressing = conditions.reason(kind::PROGRESSING);
    let (type_, cause) = if state == State::Failed {
        (kind::STALLED, kind::FAILED)
    } else if facts.plan.violations.is_some() {
        (kind::STALLED, kind::ACCEPTED)
    } else if progressing.is_some_and(|reason| NOT_TRIED_AGAIN.contains(&reason)) {
        (kind::STALLED, kind::PROGRESSING)
    } else if progressing == Some(Reason::Suspended) {
        (kind::RECONCILING, kind::SUSPENDED)
    } else {
        (kind::RECONCILING, kind::PROGRESSING)
    };
    let is_as_specified = match state {
        State::Complete => true,
        State::Suspended => {
            progressing == Some(Reason::Suspended) && conditions.reason(kind::READY).is_none()
        }
        State::Running => facts.plan.interactive && progressing == Some(Reason::Running),
        State::Pending
        | State::Starting
        | State::Degraded
        | State::Ending
        | State::Failed
        | State::Invalid
        | State::Other(_) => false,
    };
    if type_ == kind::STALLED || !is_as_specified {
        conditions.repeat(type_, cause);
    }
}
