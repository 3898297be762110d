//! What the tasks of a job print, by the log of its output (RFC 24).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Bytes of output that one answer has at most: what was printed last.
const MOST: usize = 8 << 20;
/// Bytes beyond that after which the first are forgotten.
const SLACK: usize = 1 << 20;

#[derive(Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    stream: String,
    rank: Value,
    data: Option<String>,
    encoding: Option<String>,
}

/// What tasks have printed to one of their streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) stream: String,
    /// Of the tasks.
    pub(super) rank: String,
    pub(super) data: Vec<u8>,
}

impl Printed {
    /// What the event of a log says; nothing if it is about something else.
    pub(super) fn of(event: &str) -> Option<Self> {
        let Event { name, context } = serde_json::from_str(event).ok()?;
        let Context { stream, rank, data, encoding } = context;
        let data = data.filter(|_| name == "data")?;
        let data = match encoding.as_deref() {
            Some("base64") => STANDARD.decode(data).ok()?,
            Some(_) | None => data.into_bytes(),
        };
        let rank = rank.as_str().map_or_else(|| rank.to_string(), ToOwned::to_owned);
        Some(Self { stream, rank, data })
    }
}

/// The end of all that was printed.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
        if self.bytes.len() > MOST + SLACK {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let Some(beyond) = self.bytes.len().checked_sub(MOST).filter(|beyond| *beyond > 0) else {
            return;
        };
        // Not in the middle of a character.
        let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
        let inside = self.bytes.iter().skip(beyond).take(3).take_while(|it| is_inside(it)).count();
        self.bytes.drain(..beyond + inside);
        self.cut = true;
    }

    /// The bytes, and whether there were more before them.
    pub(super) fn finish(mut self) -> (Vec<u8>, bool) {
        self.shorten();
        (self.bytes, self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_read_in_every_encoding() {
        let of = |context: &str| {
            Printed::of(&format!(r#"{{"timestamp":1.5,"name":"data","context":{context}}}"#))
        };
        let printed = |stream: &str, rank: &str, data: &[u8]| {
            Some(Printed {
                stream: stream.to_owned(),
                rank: rank.to_owned(),
                data: data.to_owned(),
            })
        };
        assert_eq!(
            of(r#"{"stream":"stdout","rank":"0-3","data":"a\n"}"#),
            printed("stdout", "0-3", b"a\n")
        );
        let bytes = r#"{"stream":"stderr","rank":1,"data":"/w==","encoding":"base64"}"#;
        assert_eq!(of(bytes), printed("stderr", "1", &[0xff]));
        assert_eq!(of(r#"{"stream":"stdout","rank":"0","eof":true}"#), None);
        let header = r#"{"timestamp":1.5,"name":"header","context":{"version":1,"data":"x"}}"#;
        assert_eq!((Printed::of(header), Printed::of("x")), (None, None));
    }

    #[test]
    fn the_end_of_much_output_is_whole_characters() {
        let mut tail = Tail::default();
        tail.push(b"short");
        assert_eq!(tail.finish(), (b"short".to_vec(), false));
        let mut tail = Tail::default();
        for _ in 0..3 * MOST / 1024 / 2 {
            tail.push("é".repeat(512).as_bytes());
        }
        tail.push(b"x");
        let (bytes, cut) = tail.finish();
        assert!(cut && bytes.len() <= MOST && bytes.len() > MOST - 4, "{}", bytes.len());
        assert!(String::from_utf8(bytes).unwrap().ends_with("éx"));
    }
}
