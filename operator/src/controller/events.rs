//! Events, from conditions that changed.

use super::status::{CALM_REASONS, kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// The API server refuses longer notes (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

/// One Event for each condition whose status or reason is not what it was, and that a person
/// should hear of.
pub fn events(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    new.iter().filter(|new| is_news(old, new)).filter_map(event).collect()
}

fn is_news(old: &[Condition], new: &Condition) -> bool {
    old.iter()
        .find(|old| old.type_ == new.type_)
        .is_none_or(|old| old.status != new.status || old.reason != new.reason)
}

fn event(condition: &Condition) -> Option<Event> {
    let holds = condition.status == "True";
    let (warns, tells) = match condition.type_.as_str() {
        kind::ACCEPTED => (!holds || condition.reason == "FieldsNotActedOn", false),
        kind::PROGRESSING if condition.reason == "Invalid" => (false, false),
        kind::PROGRESSING => {
            let stuck = !holds && !CALM_REASONS.contains(&condition.reason.as_str());
            (stuck, condition.reason == "Starting")
        }
        kind::READY | kind::SUSPENDED | kind::COMPLETE => (false, holds),
        kind::FAILED => (holds, false),
        _ => (false, false),
    };
    let mut note = condition.message.clone();
    let mut length = NOTE_LIMIT.min(note.len());
    while !note.is_char_boundary(length) {
        length -= 1;
    }
    note.truncate(length);
    (warns || tells).then(|| Event {
        type_: if warns { EventType::Warning } else { EventType::Normal },
        reason: condition.reason.clone(),
        note: Some(note),
        action: condition.type_.clone(),
        secondary: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "text".to_owned(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        }
    }

    fn reasons(old: &[Condition], new: &[Condition]) -> Vec<String> {
        events(old, new).into_iter().map(|event| event.reason).collect()
    }

    #[test]
    fn unchanged_conditions_make_no_event() {
        let same = [condition("Failed", "True", "CommandFailed")];
        assert!(events(&same, &same).is_empty());
    }

    #[test]
    fn a_failure_is_told_as_a_warning() {
        let new = [condition("Failed", "True", "CommandFailed")];
        let events = events(&[condition("Failed", "False", "NotFinished")], &new);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].type_, EventType::Warning);
    }

    #[test]
    fn a_calm_stop_is_not_told_and_a_refused_job_is() {
        assert!(reasons(&[], &[condition("Progressing", "False", "Running")]).is_empty());
        assert_eq!(
            reasons(&[], &[condition("Progressing", "False", "ApplyFailed")]),
            ["ApplyFailed"]
        );
    }

    #[test]
    fn an_invalid_specification_is_told_once() {
        let new = [
            condition("Accepted", "False", "Invalid"),
            condition("Progressing", "False", "Invalid"),
        ];
        assert_eq!(reasons(&[], &new), ["Invalid"]);
    }
}
