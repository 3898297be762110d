//! Makes Events of changed conditions.

use crate::controller::status::{SETTLED_REASONS, kind};
use flux_api::crd::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// Longest note that the API server accepts (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

pub(crate) fn events(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    new.iter().filter(|new| has_changed(old, new)).filter_map(of_condition).collect()
}

fn has_changed(old: &[Condition], new: &Condition) -> bool {
    let Some(old) = old.iter().find(|old| old.type_ == new.type_) else { return true };
    // The message of a waiting pod changes every few seconds (`ErrImagePull`, `ImagePullBackOff`), so only its reason
    // counts. A new message of a refusal belongs to another edit.
    let ignores_message = new.status == "True" || is_settled(Reason::find(&new.reason));
    old.status != new.status
        || old.reason != new.reason
        || (!ignores_message && old.message != new.message)
}

fn is_settled(reason: Option<Reason>) -> bool {
    reason.is_some_and(|reason| SETTLED_REASONS.contains(&reason))
}

pub(crate) fn event(type_: EventType, reason: &str, action: &str, mut note: String) -> Event {
    note.truncate(note.floor_char_boundary(NOTE_LIMIT));
    let (reason, action) = (reason.to_owned(), action.to_owned());
    Event { type_, reason, note: Some(note), action, secondary: None }
}

fn of_condition(condition: &Condition) -> Option<Event> {
    let holds = condition.status == "True";
    let reason = Reason::find(&condition.reason);
    let (warns, informs) = match condition.type_.as_str() {
        kind::ACCEPTED => (reason != Some(Reason::Accepted), false),
        kind::PROGRESSING if reason == Some(Reason::Invalid) => (false, false),
        kind::PROGRESSING => {
            let is_stuck = !holds && !is_settled(reason);
            let warns = is_stuck || matches!(reason, Some(Reason::Waiting | Reason::LeadReplaced));
            (warns, reason == Some(Reason::StartedByAnotherOperator))
        }
        // `Complete` and `Failed` make the Event of the end of a run.
        kind::READY => (false, holds && reason != Some(Reason::Complete)),
        kind::SUSPENDED | kind::COMPLETE => (false, holds),
        kind::FAILED => (holds, false),
        kind::AUTOSCALING => (reason == Some(Reason::LeadNotAnswering), false),
        _ => (false, false),
    };
    let type_ = if warns { EventType::Warning } else { EventType::Normal };
    let Condition { type_: action, reason, message, .. } = condition;
    (warns || informs).then(|| event(type_, reason, action, message.clone()))
}
