//! Eventlogs (RFC 18): an event in JSON on each line. Those of a job are in RFC 21.

use serde::Deserialize;
use serde_json::Value;

/// An event of an eventlog. Users may write a context of their own (flux-job(1), `memo`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Event {
    /// When the event was written, in seconds of Unix time.
    #[serde(default)]
    pub timestamp: f64,
    /// The name of the event, as `submit`.
    pub name: String,
    /// Details, by keys that depend on the name.
    #[serde(default)]
    pub context: Value,
}

impl Event {
    /// Reads one line.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// The text that the context has for `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.context[key].as_str()
    }

    /// The number that the context has for `key`.
    pub fn number<Number: TryFrom<i64>>(&self, key: &str) -> Option<Number> {
        self.context[key].as_i64()?.try_into().ok()
    }
}

/// Reads a whole eventlog; none if a line of it is no event.
pub fn parse(log: &str) -> Option<Vec<Event>> {
    log.lines().filter(|line| !line.is_empty()).map(Event::parse).collect()
}

/// The first exception that ended the job of the eventlog.
pub fn fatal_exception(events: &[Event]) -> Option<&Event> {
    let is_fatal =
        |event: &&Event| event.name == "exception" && event.number("severity") == Some(0);
    events.iter().find(is_fatal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fatal_exception_ended_the_job() {
        let log = r#"{"timestamp":1.5,"name":"memo","context":{"severity":"0"}}
{"timestamp":2.5,"name":"exception","context":{"type":"x","severity":3}}
{"timestamp":3.5,"name":"exception","context":{"type":"alloc","severity":0,"note":"a"}}
{"timestamp":4.5,"name":"exception","context":{"type":"cancel","severity":0}}
{"name":"clean"}
"#;
        let events = parse(log).unwrap();
        let fatal = fatal_exception(&events).unwrap();
        assert_eq!((fatal.text("type"), fatal.text("note")), (Some("alloc"), Some("a")));
        assert_eq!((events.len(), events[4].text("type")), (5, None));
        assert_eq!(parse("{\"name\":\"submit\"}\nx"), None);
    }
}
