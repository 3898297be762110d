//! Eventlogs (RFC 18): an event in JSON on each line. Those of a job are in RFC 21.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

/// Output of tasks on one of their streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputEvent {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The ranks of the tasks, as an idset.
    pub rank: String,
    /// The bytes that the tasks have printed.
    pub data: Vec<u8>,
}

impl OutputEvent {
    /// Reads one line of the eventlog; none if the event is about something else.
    pub fn parse(line: &str) -> Option<Self> {
        let mut event = Event::parse(line).filter(|event| event.name == "data")?;
        let Value::String(data) = event.context.get_mut("data")?.take() else { return None };
        let data = match event.text("encoding") {
            Some("base64") => STANDARD.decode(data).ok()?,
            Some(_) | None => data.into_bytes(),
        };
        let stream = event.text("stream").unwrap_or_default().to_owned();
        let rank = &event.context["rank"];
        let rank = rank.as_str().map_or_else(|| rank.to_string(), ToOwned::to_owned);
        Some(Self { stream, rank, data })
    }
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

    #[test]
    fn output_is_read_in_every_encoding() {
        let read = |context: &str| {
            let line = format!(r#"{{"timestamp":1.5,"name":"data","context":{context}}}"#);
            OutputEvent::parse(&line).map(|event| (event.stream, event.rank, event.data))
        };
        let printed = |stream: &str, rank: &str, data: &[u8]| {
            Some((stream.to_owned(), rank.to_owned(), data.to_owned()))
        };
        let text = r#"{"stream":"stdout","rank":"0-3","data":"a\n"}"#;
        assert_eq!(read(text), printed("stdout", "0-3", b"a\n"));
        let bytes = r#"{"stream":"stderr","rank":1,"data":"/w==","encoding":"base64"}"#;
        assert_eq!(read(bytes), printed("stderr", "1", &[0xff]));
        assert_eq!(read(r#"{"stream":"stdout","rank":"0","eof":true}"#), None);
        let header = r#"{"timestamp":1.5,"name":"header","context":{"version":1,"data":"x"}}"#;
        assert_eq!((OutputEvent::parse(header), OutputEvent::parse("x")), (None, None));
    }
}
