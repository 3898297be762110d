//! The service job-info: the eventlogs of jobs (flux-core, `src/modules/job-info`).

use crate::client::socket::{BrokerAddress, BrokerSocket, LEAD, Result, field, within};
use crate::eventlog::{self, Event, OutputEvent};
use nix::errno::Errno;
use serde_json::{Value, json};
use std::time::Duration;

/// The eventlog of a job from its submission to its end (RFC 21).
pub const EVENTS: &str = "eventlog";
/// The eventlog of the execution of a job (RFC 21).
pub const EXECUTION: &str = "guest.exec.eventlog";
/// The eventlog of what the tasks of a job print (RFC 24).
pub const OUTPUT: &str = "guest.output";
/// Answers with each event of an eventlog (flux-core, `src/modules/job-info/watch.c`).
const WATCH: &str = "job-info.eventlog-watch";
/// Flag of [`follow`]: wait for an eventlog that does not exist yet.
pub const WAIT_CREATE: u32 = 1;
/// Flag of [`follow`]: end after the events that exist now (flux-core 0.77 or later).
const MARK_END: u32 = 2;
/// How long a connection and an eventlog so far may take.
const EVENTLOG_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the answer with an event may take that exists already.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes beyond the limit of [`LastBytes`] after which the first bytes are dropped.
const SLACK: usize = 1 << 20;

/// The eventlog `log` of job `id` so far: an event on each line.
pub async fn eventlog(socket: &mut BrokerSocket, id: u64, log: &str) -> Result<String> {
    let asked = json!({ "id": id, "keys": [log], "flags": 0 });
    let found: Value = socket.ask_lead("job-info.lookup", &asked).await?;
    Ok(found[log].as_str().unwrap_or_default().to_owned())
}

/// The events of the eventlog `log` of job `id` so far. None if there is no such eventlog, or the broker does not answer in
/// time.
pub async fn events(broker: &BrokerAddress, id: u64, log: &str) -> Option<Vec<Event>> {
    let answer = async { eventlog(&mut broker.connect().await?, id, log).await };
    eventlog::parse(&within(EVENTLOG_TIMEOUT, "job-info.lookup", answer).await.ok()?)
}

/// Asks for each event of the eventlog `log` of job `id`, from the first one, while the eventlog grows. Only [`next_event`]
/// may follow.
pub async fn follow(socket: &mut BrokerSocket, id: u64, log: &str, flags: u32) -> Result<()> {
    let asked = json!({ "id": id, "path": log, "flags": flags });
    socket.stream(WATCH, LEAD, Some(&asked)).await
}

/// Waits for the next event of the eventlog that is followed, one line; none at its end.
pub async fn next_event(socket: &mut BrokerSocket) -> Result<Option<String>> {
    // The mark of the end is an answer without a payload.
    let next = socket.next::<Option<Value>>(WATCH).await?.flatten();
    next.map(|watched| field(watched, "event")).transpose()
}

/// The last bytes that job `id` has printed so far to `stream`, or to both streams: at most `limit` of them, and whether
/// the job has printed more.
pub async fn output(
    socket: &mut BrokerSocket,
    id: u64,
    stream: Option<&str>,
    limit: usize,
) -> Result<(Vec<u8>, bool)> {
    let mut last = LastBytes::new(limit);
    // Before the job starts, Flux would wait for the start.
    let has_started = |event: &str| Event::parse(event).is_some_and(|event| event.name == "start");
    if !eventlog(socket, id, EVENTS).await?.lines().any(has_started) {
        return Ok(last.finish());
    }
    let mut push = |event: &str| {
        let event = OutputEvent::parse(event);
        if let Some(event) = event.filter(|event| stream.is_none_or(|name| name == event.stream)) {
            last.push(&event.data);
        }
    };
    follow(socket, id, OUTPUT, MARK_END).await?;
    loop {
        match within(EVENT_TIMEOUT, WATCH, next_event(socket)).await {
            Ok(Some(event)) => push(&event),
            Ok(None) => break,
            // The job has not printed anything yet, or prints to a file.
            Err(error) if error.is(Errno::ENOENT) => break,
            // An older Flux has no mark.
            Err(error) if error.is(Errno::EPROTO) => {
                eventlog(socket, id, OUTPUT).await?.lines().for_each(push);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(last.finish())
}

#[derive(Debug)]
struct LastBytes {
    limit: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl LastBytes {
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
        let inside =
            self.bytes.iter().skip(beyond).take(3).take_while(|byte| is_inside(byte)).count();
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
    fn the_end_of_much_output_is_whole_characters() {
        const LIMIT: usize = 8 << 20;
        let mut last = LastBytes::new(LIMIT);
        last.push(b"short");
        assert_eq!(last.finish(), (b"short".to_vec(), false));
        let mut last = LastBytes::new(LIMIT);
        for _ in 0..3 * LIMIT / 1024 / 2 {
            last.push("é".repeat(512).as_bytes());
        }
        last.push(b"x");
        let (bytes, cut) = last.finish();
        assert!(cut && bytes.len() <= LIMIT && bytes.len() > LIMIT - 4, "{}", bytes.len());
        assert!(String::from_utf8(bytes).unwrap().ends_with("éx"));
    }
}
