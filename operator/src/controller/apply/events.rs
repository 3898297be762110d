//! Events, from conditions that changed.

use crate::controller::status::{SETTLED_REASONS, kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// The API server refuses longer notes (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

/// One Event for each condition that says something else than it did, and that a person should hear
/// of.
pub(crate) fn events(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    new.iter().filter(|new| is_news(old, new)).filter_map(event).collect()
}

fn is_news(old: &[Condition], new: &Condition) -> bool {
    let Some(old) = old.iter().find(|old| old.type_ == new.type_) else { return true };
    // What keeps a pod waiting is said in other words every few seconds (`ErrImagePull`,
    // `ImagePullBackOff`); a refusal in other words is the answer to another edit.
    let rewords = new.status == "True" || SETTLED_REASONS.contains(&new.reason.as_str());
    old.status != new.status || old.reason != new.reason || (!rewords && old.message != new.message)
}

/// The Event that a smaller size makes: what is taken away, before anybody misses it.
pub(crate) fn scaled_down(name: &str, from: i64, to: i64) -> Event {
    let leaving = if from - to == 1 {
        format!("{name}-{to} leaves the instance when its jobs have")
    } else {
        format!("{name}-[{to}-{}] leave the instance when their jobs have", from - 1)
    };
    Event {
        type_: EventType::Normal,
        reason: "ScaledDown".to_owned(),
        note: Some(format!(
            "from {from} to {to} pods: {leaving} ended, or their time is over (flux.drainSeconds)"
        )),
        action: "Scale".to_owned(),
        secondary: None,
    }
}

/// The Event about jobs that still ran when the pod `pod` had no time left to wait for them.
pub(crate) fn unfinished(pod: &str, jobs: &[String]) -> Event {
    let jobs = jobs.join(", ");
    Event {
        type_: EventType::Warning,
        reason: "JobsUnfinished".to_owned(),
        note: Some(format!(
            "pod {pod} had to leave before jobs on its rank had ended: {jobs}; flux.drainSeconds gives them \
             more time"
        )),
        action: "Leave".to_owned(),
        secondary: None,
    }
}

fn event(condition: &Condition) -> Option<Event> {
    let holds = condition.status == "True";
    let (warns, tells) = match condition.type_.as_str() {
        kind::ACCEPTED => (condition.reason != "Accepted", false),
        kind::PROGRESSING if condition.reason == "Invalid" => (false, false),
        kind::PROGRESSING => {
            let stuck = !holds && !SETTLED_REASONS.contains(&condition.reason.as_str());
            let tells = condition.reason == "StartedByAnotherOperator";
            (stuck || condition.reason == "Waiting", tells)
        }
        kind::READY | kind::SUSPENDED | kind::COMPLETE => (false, holds),
        kind::FAILED => (holds, false),
        _ => (false, false),
    };
    let mut note = condition.message.clone();
    note.truncate(note.floor_char_boundary(NOTE_LIMIT));
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

    #[test]
    fn a_calm_stop_is_not_told_and_a_refused_job_is() {
        let invalid = ["Accepted", "Progressing"].map(|type_| condition(type_, "False", "Invalid"));
        let of = |type_, status, reason| vec![condition(type_, status, reason)];
        for (old, new, expected) in [
            (vec![], of("Progressing", "False", "Running"), None),
            (vec![], of("Progressing", "False", "ApplyFailed"), Some("ApplyFailed")),
            (vec![], invalid.to_vec(), Some("Invalid")),
            (
                of("Failed", "False", "NotFinished"),
                of("Failed", "True", "CommandFailed"),
                Some("CommandFailed"),
            ),
            (
                of("Progressing", "True", "Starting"),
                of("Progressing", "True", "Waiting"),
                Some("Waiting"),
            ),
            (of("Failed", "True", "CommandFailed"), of("Failed", "True", "CommandFailed"), None),
        ] {
            let events = events(&old, &new);
            let reasons: Vec<&str> = events.iter().map(|event| &*event.reason).collect();
            assert_eq!(reasons, expected.into_iter().collect::<Vec<_>>());
            assert!(events.iter().all(|event| event.type_ == EventType::Warning));
        }
    }

    #[test]
    fn another_fault_is_news_and_another_word_for_the_same_wait_is_not() {
        for (type_, status, reason, is_news) in [
            ("Accepted", "False", "Invalid", true),
            ("Progressing", "False", "ChangeRefused", true),
            ("Progressing", "True", "Waiting", false),
            ("Progressing", "False", "Running", false),
        ] {
            let old = condition(type_, status, reason);
            let new = Condition { message: "other".to_owned(), ..old.clone() };
            assert_eq!(!events(&[old], &[new]).is_empty(), is_news, "{reason}");
        }
    }

    #[test]
    fn the_pods_that_leave_are_named() {
        let note = |from, to| scaled_down("hello", from, to).note.unwrap();
        assert!(note(4, 2).starts_with("from 4 to 2 pods: hello-[2-3] leave the instance "));
        assert!(note(4, 3).starts_with("from 4 to 3 pods: hello-3 leaves the instance "));
    }
}
