//! Flux messages as they go over the local socket: the few requests that are understood, with the payloads
//! that the agent sends.
//!
//! A message is a magic number in the host's byte order, the big-endian length of the rest, and
//! frames, each behind its length (flux-core, `common/librouter/sendfd.c`). The last frame is the
//! protocol frame of RFC 3. What an answer looks like was recorded from flux-core 0.88.

use crate::protocol::{Reply, Request};
use serde_json::{Value, json};

pub(super) const MAGIC: [u8; 4] = 0xffee_0012_u32.to_ne_bytes();
/// Magic number and length.
pub(super) const HEAD: usize = 8;
/// No request that is understood is longer.
const LONGEST: u32 = 64 * 1024;

const PROTOCOL_MAGIC: u8 = 0x8e;
const PROTOCOL_VERSION: u8 = 1;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
const FLAG_TOPIC: u8 = 0x01;
const FLAG_PAYLOAD: u8 = 0x02;
const FLAG_ROUTE: u8 = 0x08;
const ANY_NODE: u32 = u32::MAX;
/// Roles of an answer: owner, and local (RFC 12).
const ROLES: u32 = 5;
/// The rank of the broker that has the services of the instance.
const LEAD: u32 = 0;
/// Of Linux: `EINVAL`, `ENOSYS`, `EPROTO` and `EHOSTUNREACH`.
const INVALID: u32 = 22;
const NO_SERVICE: u32 = 38;
const NO_PROTOCOL: u32 = 71;
const NO_SUCH_NODE: u32 = 113;

/// Of jobs (flux-core, `modules/job-list/job-list.c`).
const ATTRIBUTES: &str =
    "userid name state result ntasks nnodes ncores priority ranks t_submit t_run t_inactive";

pub(super) struct Message {
    topic: String,
    node: u32,
    matchtag: u32,
    payload: Value,
}

/// Why there is no answer: an errno, and its text.
type Refusal = (u32, String);

/// The length of the frames behind a head; `None` if it is not the head of a request.
pub(super) fn length(head: [u8; HEAD]) -> Option<usize> {
    let (magic, length) = head.split_first_chunk()?;
    let length = u32::from_be_bytes(*length.first_chunk()?);
    usize::try_from(length).ok().filter(|_| *magic == MAGIC && length <= LONGEST)
}

impl Message {
    /// Reads the frames of a request; anything else is `None`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let frames = frames(body)?;
        let (protocol, others) = frames.split_last()?;
        let (&[magic, version, kind, flags], words) = protocol.split_first_chunk::<4>()?;
        if (magic, version, kind) != (PROTOCOL_MAGIC, PROTOCOL_VERSION, REQUEST)
            || flags & FLAG_TOPIC == 0
            || words.len() != 16
            // Flux would take the owner's word for it that another user asks.
            || words.get(..4)? != [0xff; 4]
        {
            return None;
        }
        let word = |at: usize| words.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        // The route ends with an empty frame.
        let route = if flags & FLAG_ROUTE == 0 {
            0
        } else {
            others.iter().position(|frame| frame.is_empty())? + 1
        };
        let topic = String::from_utf8(others.get(route)?.to_vec()).ok()?;
        let payload = others.get(route + 1).filter(|_| flags & FLAG_PAYLOAD != 0);
        let payload =
            payload.and_then(|text| serde_json::from_slice(text.strip_suffix(&[0])?).ok());
        Some(Self {
            topic,
            node: word(8)?,
            matchtag: word(12)?,
            payload: payload.unwrap_or_default(),
        })
    }

    pub(super) fn request(&self, rank: u32) -> Result<Request, Refusal> {
        let unreachable = (NO_SUCH_NODE, String::new());
        match (self.topic.as_str(), self.node) {
            ("state-machine.get", node) if node == ANY_NODE || node == rank => Ok(Request::State),
            ("state-machine.get", LEAD) => Ok(Request::LeadState),
            ("resource.status", LEAD) => Ok(Request::Drained),
            ("resource.sched-status", LEAD) => Ok(Request::Allocated),
            ("job-manager.stats-get", LEAD) => Ok(Request::ActiveJobs),
            ("job-manager.history.get", LEAD) => {
                let slice = self.payload["slice"].as_str().and_then(|it| it.strip_prefix("[:"));
                let most = slice.and_then(|it| it.strip_suffix(']')?.parse().ok());
                most.map(Request::Newest).ok_or((NO_PROTOCOL, String::new()))
            }
            ("resource.drain" | "resource.undrain" | "job-list.list", LEAD) => {
                self.of_instance().ok_or((NO_PROTOCOL, String::new()))
            }
            ("state-machine.get", _) => Err(unreachable),
            (topic, _) => Err((NO_SERVICE, format!("No service matching {topic} is registered"))),
        }
    }

    /// What is asked of the instance about one rank. A payload has to be what would be made of what is read of it.
    fn of_instance(&self) -> Option<Request> {
        let states = &self.payload["constraint"]["states"];
        if let Some(states) = states.as_array().filter(|_| self.topic == "job-list.list") {
            let attributes = self.payload["attrs"].as_array()?;
            let known = |it: &Value| ATTRIBUTES.split(' ').any(|known| it == known);
            return attributes.iter().all(known).then_some(Request::List(states.len() > 2));
        }
        let text = |pointer: &str| self.payload.pointer(pointer).and_then(Value::as_str);
        let ids = text("/targets").or_else(|| text("/constraint/and/1/ranks/0"))?;
        let rank = ids.parse().ok()?;
        let (understood, request) = match self.topic.as_str() {
            "resource.drain" => {
                let reason = text("/reason")?;
                let understood = json!({ "targets": ids, "reason": reason });
                (understood, Request::Drain(rank, Some(reason.to_owned())))
            }
            "resource.undrain" => (json!({ "targets": ids }), Request::Drain(rank, None)),
            _ => {
                let most = self.payload["max_entries"].as_u64()?;
                let running = json!({ "and": [{ "states": ["running"] }, { "ranks": [ids] }] });
                let understood = json!({ "max_entries": most, "attrs": [], "constraint": running });
                (understood, Request::RunningOn(rank, usize::try_from(most).ok()?))
            }
        };
        (self.payload == understood).then_some(request)
    }

    /// The whole answer of a broker that belongs to `owner`.
    pub(super) fn answer(&self, owner: u32, reply: Result<Reply, Refusal>) -> Vec<u8> {
        let (errno, payload) = match reply {
            Ok(Reply::Done(Value::Null)) => (0, String::new()),
            Ok(Reply::Done(value)) => (0, value.to_string()),
            // One of the way to the lead has the exit code of a command.
            Ok(Reply::Failed(text, 1)) => (NO_SUCH_NODE, text),
            Ok(Reply::Failed(text, errno)) => (errno.into(), text),
            Ok(Reply::Output(..)) => (INVALID, String::new()),
            Err(refusal) => refusal,
        };
        let mut body = Vec::new();
        push(&mut body, &[]);
        push(&mut body, self.topic.as_bytes());
        let mut flags = FLAG_TOPIC | FLAG_ROUTE;
        if !payload.is_empty() {
            flags |= FLAG_PAYLOAD;
            push(&mut body, &[payload.as_bytes(), b"\0"].concat());
        }
        let mut protocol = vec![PROTOCOL_MAGIC, PROTOCOL_VERSION, RESPONSE, flags];
        for word in [owner, ROLES, errno, self.matchtag] {
            protocol.extend(word.to_be_bytes());
        }
        push(&mut body, &protocol);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
        [MAGIC.as_slice(), &length, &body].concat()
    }
}

/// Appends a frame with its length: one byte, or 255 and four bytes.
fn push(body: &mut Vec<u8>, frame: &[u8]) {
    match u8::try_from(frame.len()) {
        Ok(length) if length < u8::MAX => body.push(length),
        _ => {
            body.push(u8::MAX);
            body.extend(u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    body.extend(frame);
}

fn frames(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut frames = Vec::new();
    while let Some((&first, rest)) = body.split_first() {
        let (length, rest) = if first == u8::MAX {
            let (bytes, rest) = rest.split_first_chunk::<4>()?;
            (usize::try_from(u32::from_be_bytes(*bytes)).ok()?, rest)
        } else {
            (usize::from(first), rest)
        };
        let (frame, rest) = rest.split_at_checked(length)?;
        frames.push(frame);
        body = rest;
    }
    Some(frames)
}
