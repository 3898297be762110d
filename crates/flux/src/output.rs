//! The output of the tasks of a job, as the events of an eventlog (RFC 24).

use crate::eventlog::Event;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

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
