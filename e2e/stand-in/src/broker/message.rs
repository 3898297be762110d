//! Flux messages as they go over the local socket: the few that are understood.
//!
//! A message is a magic number in the host's byte order, the big-endian length of the rest, and
//! frames, each behind its length (flux-core, `common/librouter/sendfd.c`). The last frame is the
//! protocol frame of RFC 3. What an answer looks like was recorded from flux-core 0.88.

/// Begins every message.
pub(crate) const MAGIC: [u8; 4] = 0xffee_0012_u32.to_ne_bytes();
/// Magic number and length.
pub(crate) const HEAD: usize = 8;
/// No question that is understood is longer.
const LONGEST: u32 = 64 * 1024;
/// The topic that is understood.
const STATE_TOPIC: &str = "state-machine.get";

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
/// `ENOSYS` and `EHOSTUNREACH` of Linux.
const NO_SERVICE: u32 = 38;
const NO_SUCH_NODE: u32 = 113;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    topic: String,
    node: u32,
    matchtag: u32,
}

/// The length of the frames behind a head; `None` if it is not the head of a question.
pub(crate) fn length(head: [u8; HEAD]) -> Option<usize> {
    let [m0, m1, m2, m3, l0, l1, l2, l3] = head;
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let known = [m0, m1, m2, m3] == MAGIC && length <= LONGEST;
    usize::try_from(length).ok().filter(|_| known)
}

impl Question {
    /// Reads the frames of a request; anything else is `None`.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let frames = frames(body)?;
        let (protocol, others) = frames.split_last()?;
        let (&[magic, version, kind, flags], words) = protocol.split_first_chunk::<4>()?;
        if (magic, version, kind) != (PROTOCOL_MAGIC, PROTOCOL_VERSION, REQUEST)
            || flags & FLAG_TOPIC == 0
            || words.len() != 16
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
        Some(Self { topic, node: word(8)?, matchtag: word(12)? })
    }

    /// The whole answer of the broker of `rank`, which belongs to `owner` and is in `state`.
    pub(crate) fn answer(&self, owner: u32, rank: u32, state: &str) -> Vec<u8> {
        if self.node != ANY_NODE && self.node != rank {
            return self.respond(owner, NO_SUCH_NODE, None);
        }
        if self.topic == STATE_TOPIC {
            return self.respond(owner, 0, Some(state));
        }
        let text = format!("No service matching {} is registered", self.topic);
        self.respond(owner, NO_SERVICE, Some(&text))
    }

    fn respond(&self, owner: u32, errno: u32, payload: Option<&str>) -> Vec<u8> {
        let mut body = Vec::new();
        push(&mut body, &[]);
        push(&mut body, self.topic.as_bytes());
        let mut flags = FLAG_TOPIC | FLAG_ROUTE;
        if let Some(text) = payload {
            flags |= FLAG_PAYLOAD;
            push(&mut body, &[text.as_bytes(), b"\0"].concat());
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
