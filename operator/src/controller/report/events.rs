//! Events, from conditions that changed.

use crate::controller::status::{SETTLED_REASONS, kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// The API server refuses longer notes (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

/// One Event for each condition that says something new which a person should hear of.
pub(crate) fn events(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    new.iter().filter(|new| is_news(old, new)).filter_map(of_condition).collect()
}

fn is_news(old: &[Condition], new: &Condition) -> bool {
    let Some(old) = old.iter().find(|old| old.type_ == new.type_) else { return true };
    // What keeps a pod waiting is said in other words every few seconds (`ErrImagePull`,
    // `ImagePullBackOff`); a refusal in other words is the answer to another edit.
    let rewords = new.status == "True" || SETTLED_REASONS.contains(&new.reason.as_str());
    old.status != new.status || old.reason != new.reason || (!rewords && old.message != new.message)
}

fn event(type_: EventType, reason: &str, action: &str, mut note: String) -> Event {
    note.truncate(note.floor_char_boundary(NOTE_LIMIT));
    let (reason, action) = (reason.to_owned(), action.to_owned());
    Event { type_, reason, note: Some(note), action, secondary: None }
}

fn of_condition(condition: &Condition) -> Option<Event> {
    let holds = condition.status == "True";
    let (warns, tells) = match condition.type_.as_str() {
        kind::ACCEPTED => (condition.reason != "Accepted", false),
        kind::PROGRESSING if condition.reason == "Invalid" => (false, false),
        kind::PROGRESSING => {
            let stuck = !holds && !SETTLED_REASONS.contains(&condition.reason.as_str());
            let tells = condition.reason == "StartedByAnotherOperator";
            (stuck || ["Waiting", "LeadReplaced"].contains(&condition.reason.as_str()), tells)
        }
        // The end of a run has an Event of its own.
        kind::READY => (false, holds && condition.reason != "Complete"),
        kind::SUSPENDED | kind::COMPLETE => (false, holds),
        kind::FAILED => (holds, false),
        kind::AUTOSCALING => (condition.reason == "LeadNotAnswering", false),
        _ => (false, false),
    };
    let type_ = if warns { EventType::Warning } else { EventType::Normal };
    let Condition { type_: action, reason, message, .. } = condition;
    (warns || tells).then(|| event(type_, reason, action, message.clone()))
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
        for (type_, old, (status, reason), told) in [
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
            let expected: &[&str] = if told { &[reason] } else { &[] };
            assert_eq!(reasons(&old, &[condition(type_, status, reason, 0)]), expected);
        }
    }

    #[test]
    fn only_new_faults_and_refusals_repeat_an_event() {
        for (type_, status, reason, is_news) in [
            ("Accepted", "False", "Invalid", true),
            ("Progressing", "False", "ChangeRefused", true),
            ("Progressing", "True", "Waiting", false),
            ("Progressing", "False", "Running", false),
        ] {
            let old = condition(type_, status, reason, 0);
            let new = Condition { message: "other".to_owned(), ..old.clone() };
            assert_eq!(!events(&[old], &[new]).is_empty(), is_news, "{reason}");
        }
    }
}
