//! What the tasks of a job print, by the log of its output (RFC 24).

use crate::flux::broker_socket::{BrokerSocket, SocketError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// The log of what the tasks of a job print.
pub(crate) const OUTPUT: &str = "guest.output";
/// The service that answers with each entry of a log (flux-core, `src/modules/job-info/watch.c`).
pub(crate) const WATCH: &str = "job-info.eventlog-watch";
/// Answers without a payload behind what there is by then: flux-core 0.77 or later.
const MARK_END: u32 = 2;
/// How long the next entry may take that is there already.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes beyond the limit of a [`Tail`] after which the first are forgotten.
const SLACK: usize = 1 << 20;

#[derive(Deserialize)]
pub(crate) struct Entry {
    pub(crate) event: String,
}

/// The end of what job `id` has printed so far to `stream`, or to both: at most `limit` bytes, and whether there was more.
pub(crate) async fn output(
    socket: &mut BrokerSocket,
    id: u64,
    stream: Option<&str>,
    limit: usize,
) -> Result<(Vec<u8>, bool), SocketError> {
    let mut tail = Tail::new(limit);
    // Before it starts, Flux would wait for that.
    if !log(socket, id, "eventlog").await?.lines().any(is_start) {
        return Ok(tail.finish());
    }
    let mut push = |entry: &str| {
        let printed = Printed::of(entry).filter(|it| stream.is_none_or(|name| name == it.stream));
        if let Some(printed) = printed {
            tail.push(&printed.data);
        }
    };
    socket.stream(WATCH, &json!({ "id": id, "path": OUTPUT, "flags": MARK_END })).await?;
    let silent = || Err(SocketError::Silent { topic: WATCH.to_owned() });
    loop {
        let next = timeout(PATIENCE, socket.next::<Option<Entry>>(WATCH)).await;
        match next.unwrap_or_else(|_| silent()) {
            Ok(Some(Some(entry))) => push(&entry.event),
            Ok(Some(None) | None) => break,
            // Nothing has been printed yet, or it went to a file.
            Err(error) if error.is(Errno::ENOENT) => break,
            // An older Flux, which has no mark.
            Err(error) if error.is(Errno::EPROTO) => {
                log(socket, id, OUTPUT).await?.lines().for_each(push);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(tail.finish())
}

/// The log `key` of job `id` so far: a line for each event.
pub(crate) async fn log(
    socket: &mut BrokerSocket,
    id: u64,
    key: &str,
) -> Result<String, SocketError> {
    let asked = json!({ "id": id, "keys": [key], "flags": 0 });
    let found: Value = socket.ask_lead("job-info.lookup", &asked).await?;
    Ok(found[key].as_str().unwrap_or_default().to_owned())
}

fn is_start(event: &str) -> bool {
    serde_json::from_str::<Event>(event).is_ok_and(|event| event.name == "start")
}

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
pub(crate) struct Printed {
    pub(crate) stream: String,
    /// Of the tasks.
    pub(crate) rank: String,
    pub(crate) data: Vec<u8>,
}

impl Printed {
    /// What the event of a log says; nothing if it is about something else.
    pub(crate) fn of(event: &str) -> Option<Self> {
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
#[derive(Debug)]
struct Tail {
    limit: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    const fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), cut: false }
    }

    fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
        if self.bytes.len() > self.limit + SLACK {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let beyond = self.bytes.len().saturating_sub(self.limit);
        if beyond == 0 {
            return;
        }
        // Not in the middle of a character.
        let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
        let inside = self.bytes.iter().skip(beyond).take(3).take_while(|it| is_inside(it)).count();
        self.bytes.drain(..beyond + inside);
        self.cut = true;
    }

    /// The bytes, and whether there were more before them.
    fn finish(mut self) -> (Vec<u8>, bool) {
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
        const MOST: usize = 8 << 20;
        let mut tail = Tail::new(MOST);
        tail.push(b"short");
        assert_eq!(tail.finish(), (b"short".to_vec(), false));
        let mut tail = Tail::new(MOST);
        for _ in 0..3 * MOST / 1024 / 2 {
            tail.push("é".repeat(512).as_bytes());
        }
        tail.push(b"x");
        let (bytes, cut) = tail.finish();
        assert!(cut && bytes.len() <= MOST && bytes.len() > MOST - 4, "{}", bytes.len());
        assert!(String::from_utf8(bytes).unwrap().ends_with("éx"));
    }
}
