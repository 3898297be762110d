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

fn event(type_: EventType, reason: &str, action: &str, mut note: String) -> Event {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::condition;

    #[test]
    fn only_conditions_that_concern_people_become_events() {
        let invalid =
            ["Accepted", "Progressing"].map(|type_| condition(type_, "False", "Invalid", 0));
        let reasons = |old: &[Condition], new: &[Condition]| -> Vec<String> {
            let events = events(old, new);
            assert!(events.iter().all(|event| event.type_ == EventType::Warning));
            events.into_iter().map(|event| event.reason).collect()
        };
        assert_eq!(reasons(&[], &invalid), ["Invalid"]);
        for (type_, old, (status, reason), is_published) in [
            ("Progressing", None, ("False", "Running"), false),
            ("Progressing", None, ("False", "ApplyFailed"), true),
            ("Failed", Some(("False", "NotFinished")), ("True", "CommandFailed"), true),
            ("Progressing", Some(("True", "Starting")), ("True", "Waiting"), true),
            ("Progressing", Some(("False", "Running")), ("True", "LeadReplaced"), true),
            ("Failed", Some(("True", "CommandFailed")), ("True", "CommandFailed"), false),
            ("Autoscaling", None, ("False", "LeadNotAsked"), false),
            ("Autoscaling", None, ("False", "LeadNotAnswering"), true),
            ("Ready", Some(("True", "QuorumReached")), ("True", "Complete"), false),
            ("Stalled", None, ("True", "CommandFailed"), false),
        ] {
            let old: Vec<Condition> = old
                .into_iter()
                .map(|(status, reason)| condition(type_, status, reason, 0))
                .collect();
            let expected: &[&str] = if is_published { &[reason] } else { &[] };
            assert_eq!(reasons(&old, &[condition(type_, status, reason, 0)]), expected);
        }
    }

    #[test]
    fn only_new_faults_and_refusals_repeat_an_event() {
        for (type_, status, reason, repeats) in [
            ("Accepted", "False", "Invalid", true),
            ("Progressing", "False", "ChangeRefused", true),
            ("Progressing", "True", "Waiting", false),
            ("Progressing", "False", "Running", false),
        ] {
            let old = condition(type_, status, reason, 0);
            let new = Condition { message: "other".to_owned(), ..old.clone() };
            assert_eq!(!events(&[old], &[new]).is_empty(), repeats, "{reason}");
        }
    }
}
