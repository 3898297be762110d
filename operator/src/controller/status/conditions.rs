//! A list of conditions that keeps the transition time of each condition whose status has not changed.

use flux_api::crd::{MiniClusterStatus, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub(crate) mod kind {
    pub(crate) const ACCEPTED: &str = "Accepted";
    /// The operator or the run makes progress; false when it is done or stuck.
    pub(crate) const PROGRESSING: &str = "Progressing";
    pub(crate) const READY: &str = "Ready";
    pub(crate) const SUSPENDED: &str = "Suspended";
    pub(crate) const COMPLETE: &str = "Complete";
    pub(crate) const FAILED: &str = "Failed";
    /// The size follows the demand of the queue; false while the demand is unknown.
    pub(crate) const AUTOSCALING: &str = "Autoscaling";
    pub(crate) const REST_READY: &str = "RestReady";
    /// The MiniCluster can never become as specified; absent otherwise.
    pub(crate) const STALLED: &str = "Stalled";
    /// The MiniCluster is not yet as specified; absent otherwise.
    pub(crate) const RECONCILING: &str = "Reconciling";

    pub(super) const ALL: [&str; 10] = [
        ACCEPTED,
        PROGRESSING,
        READY,
        SUSPENDED,
        COMPLETE,
        FAILED,
        AUTOSCALING,
        REST_READY,
        STALLED,
        RECONCILING,
    ];
}

/// Reasons of `Progressing=False` that are no trouble.
pub(crate) const SETTLED_REASONS: [Reason; 3] =
    [Reason::Running, Reason::Suspended, Reason::Finished];

/// Longest message; the API server refuses more than 32768 characters.
const MESSAGE_LIMIT: usize = 8192;

pub(super) struct Conditions {
    old: Vec<Condition>,
    list: Vec<Condition>,
    generation: i64,
    now: Time,
}

impl Conditions {
    pub(super) fn new(old: Option<&MiniClusterStatus>, generation: i64, now: Time) -> Self {
        let old = old.map(|old| old.conditions.clone()).unwrap_or_default();
        Self { old, list: Vec::new(), generation, now }
    }

    pub(super) fn yes(&mut self, type_: &str, reason: impl AsRef<str>, message: String) {
        self.set(type_, true, reason, message);
    }

    pub(super) fn no(&mut self, type_: &str, reason: impl AsRef<str>, message: String) {
        self.set(type_, false, reason, message);
    }

    pub(super) fn yes_of(&mut self, generation: i64, type_: &str, reason: &str, message: String) {
        self.yes(type_, reason, message);
        if let Some(condition) = self.list.last_mut() {
            condition.observed_generation = Some(generation);
        }
    }

    fn find(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    pub(super) fn reason(&self, type_: &str) -> Option<Reason> {
        Reason::find(&self.find(type_)?.reason)
    }

    /// Sets `type_` to true with the reason and the message of the condition `cause`.
    pub(super) fn repeat(&mut self, type_: &str, cause: &str) {
        if let Some(Condition { reason, message, .. }) = self.find(cause).cloned() {
            self.yes(type_, reason, message);
        }
    }

    pub(super) fn into_list(self) -> Vec<Condition> {
        self.list
    }

    /// The conditions that were set, and the old ones of the other types, except types of other operators.
    pub(super) fn with_old(self) -> Vec<Condition> {
        let mut merged = self.list;
        for other in self.old {
            let is_set = merged.iter().any(|condition| condition.type_ == other.type_);
            if !is_set && kind::ALL.contains(&other.type_.as_str()) {
                merged.push(other);
            }
        }
        merged
    }

    pub(super) fn set(
        &mut self,
        type_: &str,
        holds: bool,
        reason: impl AsRef<str>,
        mut message: String,
    ) {
        let status = if holds { "True" } else { "False" };
        let same = |old: &&Condition| old.type_ == type_ && old.status == status;
        let since = self.old.iter().find(same).map(|old| old.last_transition_time.clone());
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT));
        self.list.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.as_ref().to_owned(),
            message,
            observed_generation: Some(self.generation),
            last_transition_time: since.unwrap_or_else(|| self.now.clone()),
        });
    }
}
