//! The values that the metrics take from a status and from a status change.

use super::conditions::kind;
use crate::metrics::{End, StatusChange, Summary};
use flux_api::crd::{MiniCluster, MiniClusterStatus, Reason, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use std::time::Duration;

pub(crate) fn summary(mini_cluster: &MiniCluster, status: &MiniClusterStatus) -> Option<Summary> {
    let state = status.state?;
    let reason = status.reason.as_deref().unwrap_or_default();
    let in_queue = state == State::Suspended
        && condition(status, kind::SUSPENDED)
            .is_some_and(|it| it.reason == Reason::InQueue.as_str());
    let since = |type_, value| transition(status, type_, value);
    let waits_since = match state {
        State::Pending | State::Starting | State::Degraded => {
            // The time in a queue or suspended does not count.
            let since = since(kind::READY, "False").max(since(kind::SUSPENDED, "False"));
            since.or_else(|| created(mini_cluster))
        }
        State::Suspended if in_queue => since(kind::SUSPENDED, "True"),
        State::Suspended
        | State::Running
        | State::Ending
        | State::Complete
        | State::Failed
        | State::Invalid
        | State::Other(_) => None,
    };
    Some(Summary::new(state, reason, in_queue, waits_since))
}

pub(crate) fn change<'status>(
    mini_cluster: &MiniCluster,
    new: &'status MiniClusterStatus,
) -> StatusChange<'status> {
    let old = mini_cluster.status.as_ref();
    let since_creation = |time: Timestamp| {
        // A time before the creation comes from a clock that is behind, or from a restored copy of a MiniCluster.
        let duration = time.duration_since(created(mini_cluster)?);
        Duration::try_from(duration).ok()
    };
    // Of a later run the creation is no begin.
    let is_first = new.history.len() <= usize::from(new.is_over());
    let was_over = old.is_some_and(MiniClusterStatus::is_over);
    let end = new.state.filter(|_| new.is_over() && !was_over).map(|state| End {
        after: (new.completion_time.as_ref().filter(|_| is_first))
            .and_then(|time| since_creation(time.0)),
        state,
        reason: new.reason.as_deref().unwrap_or_default(),
        timeline: &new.timeline,
    });
    // A MiniCluster that never had a Job has size 0 in its status.
    let size = if new.size > 0 { new.size } else { mini_cluster.spec.size };
    StatusChange {
        size,
        ready: first_ready(old, new).filter(|_| is_first).and_then(since_creation),
        end,
    }
}

/// When the MiniCluster became ready, if `new` is its first ready status. A complete run has `Ready=True`, too, and does
/// not count. After a suspension the status does not show whether it was ready before.
fn first_ready(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus) -> Option<Timestamp> {
    let now = transition(new, kind::READY, "True").filter(|_| !new.is_over())?;
    let Some(old) = old.filter(|old| !old.conditions.is_empty()) else {
        return Some(now);
    };
    // `Complete` is false since the start: `Ready` is false since the same time only if it was never true.
    let unready = transition(old, kind::READY, "False")?;
    (Some(unready) == transition(old, kind::COMPLETE, "False")).then_some(now)
}

fn created(mini_cluster: &MiniCluster) -> Option<Timestamp> {
    mini_cluster.creation_timestamp().map(|time| time.0)
}

fn condition<'status>(
    status: &'status MiniClusterStatus,
    type_: &str,
) -> Option<&'status Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Since when the condition has this status, if it has it.
fn transition(status: &MiniClusterStatus, type_: &str, value: &str) -> Option<Timestamp> {
    let condition = condition(status, type_).filter(|condition| condition.status == value)?;
    Some(condition.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::at;
    use flux_api::crd::MiniClusterSpec;
    use serde_json::json;

    #[test]
    fn a_minicluster_without_conditions_waits_since_its_creation() {
        let mut mini_cluster = MiniCluster::new("hello", MiniClusterSpec::default());
        mini_cluster.metadata.creation_timestamp = Some(at(10));
        let mut status = MiniClusterStatus { state: Some(State::Pending), ..Default::default() };
        let since = summary(&mini_cluster, &status).unwrap().waits_since;
        assert_eq!(since.map(Timestamp::as_second), Some(10));
        mini_cluster.status = Some(status.clone());
        let ready = json!({
            "type": kind::READY, "status": "True", "reason": "QuorumReached", "message": "", "lastTransitionTime": at(31),
        });
        status.conditions = vec![serde_json::from_value(ready).unwrap()];
        assert_eq!(change(&mini_cluster, &status).ready, Some(Duration::from_secs(21)));
    }
}
