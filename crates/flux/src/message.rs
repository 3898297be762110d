//! Messages (RFC 3) as the local socket of a broker carries them: a magic number in the byte order of the host, the length
//! of the rest, and frames, each after its own length (flux-core, `common/librouter/sendfd.c`). The frames are the route,
//! which ends with an empty frame, the topic, the payload if there is one, and the protocol frame.

/// Begins every message.
pub const MAGIC: [u8; 4] = 0xffee_0012_u32.to_ne_bytes();
/// Bytes of the magic number and the length.
pub const HEAD: usize = 8;
/// [`Message::kind`] of a request.
pub const REQUEST: u8 = 1;
/// [`Message::kind`] of a response.
pub const RESPONSE: u8 = 2;
/// Begins the protocol frame, with its version.
const PROTOCOL: [u8; 2] = [0x8e, 1];
const PROTOCOL_FRAME: usize = 20;
const FLAG_TOPIC: u8 = 0x01;
const FLAG_PAYLOAD: u8 = 0x02;
const FLAG_ROUTE: u8 = 0x08;
const FLAG_STREAMING: u8 = 0x40;

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// [`REQUEST`] or [`RESPONSE`].
    pub kind: u8,
    /// The request may have several responses.
    pub streaming: bool,
    /// The service.
    pub topic: String,
    /// The text, without the NUL that ends it.
    pub payload: Option<String>,
    /// The user who sends the request.
    pub user: u32,
    /// The roles of the user (RFC 12).
    pub roles: u32,
    /// The rank that gets the request, or the error number of a response.
    pub node: u32,
    /// The number of the request, which its responses repeat.
    pub matchtag: u32,
}

/// The length of the frames that follow `head`; none if it is not the head of a message.
pub fn length(head: [u8; HEAD]) -> Option<u32> {
    let (magic, length) = head.split_first_chunk()?;
    let length = length.first_chunk().map(|length| u32::from_be_bytes(*length));
    length.filter(|_| *magic == MAGIC)
}

impl Message {
    /// The whole message, with its head.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        push(&mut body, &[]);
        push(&mut body, self.topic.as_bytes());
        let mut flags = FLAG_TOPIC | FLAG_ROUTE;
        if self.streaming {
            flags |= FLAG_STREAMING;
        }
        if let Some(payload) = &self.payload {
            flags |= FLAG_PAYLOAD;
            push(&mut body, format!("{payload}\0").as_bytes());
        }
        let [magic, version] = PROTOCOL;
        let mut protocol = vec![magic, version, self.kind, flags];
        for field in [self.user, self.roles, self.node, self.matchtag] {
            protocol.extend(field.to_be_bytes());
        }
        push(&mut body, &protocol);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        [&MAGIC, length.to_be_bytes().as_slice(), &body].concat()
    }

    /// Reads the frames that follow a head; the error is what is wrong with them.
    pub fn decode(body: &[u8]) -> Result<Self, &'static str> {
        let mut frames = frames(body).ok_or("a frame is cut off")?;
        let protocol = frames.pop().ok_or("it is empty")?;
        let protocol: [u8; PROTOCOL_FRAME] =
            protocol.try_into().map_err(|_| "its protocol frame has another size")?;
        let [magic, version, kind, flags, fields @ ..] = protocol;
        if [magic, version] != PROTOCOL {
            return Err("it is of another protocol");
        }
        let mut fields = fields.as_chunks().0.iter().map(|field| u32::from_be_bytes(*field));
        let mut field = || fields.next().unwrap_or_default();
        let mut text = |flag| {
            let frame = (flags & flag != 0).then(|| frames.pop()).flatten()?;
            let text = frame.strip_suffix(&[0]).unwrap_or(frame);
            Some(String::from_utf8_lossy(text).into_owned())
        };
        Ok(Self {
            kind,
            streaming: flags & FLAG_STREAMING != 0,
            payload: text(FLAG_PAYLOAD),
            topic: text(FLAG_TOPIC).unwrap_or_default(),
            user: field(),
            roles: field(),
            node: field(),
            matchtag: field(),
        })
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
            (u32::from_be_bytes(*bytes) as usize, rest)
        } else {
            (usize::from(first), rest)
        };
        let (frame, rest) = rest.split_at_checked(length)?;
        frames.push(frame);
        body = rest;
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a client of flux-core 0.88 sends it.
    #[test]
    fn messages_are_those_of_flux() {
        let request = Message {
            kind: REQUEST,
            topic: "a.b".to_owned(),
            payload: Some("{}".to_owned()),
            user: u32::MAX,
            node: 7,
            matchtag: 258,
            ..Message::default()
        };
        let (head, body) =
            request.encode().split_first_chunk().map(|(a, b)| (*a, b.to_vec())).unwrap();
        let protocol = b"\x14\x8e\x01\x01\x0b\xff\xff\xff\xff\0\0\0\0\0\0\0\x07\0\0\x01\x02";
        assert_eq!(body, [b"\0\x03a.b\x03{}\0".as_slice(), protocol].concat());
        assert_eq!(length(head), u32::try_from(body.len()).ok());
        assert_eq!(length([0; HEAD]), None);
        assert_eq!(Message::decode(&body), Ok(request.clone()));
        for end in 0..body.len() {
            assert!(Message::decode(&body[..end]).is_err(), "cut at {end}");
        }
        assert!(Message::decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
        let long = Message { payload: Some("x".repeat(300)), streaming: true, ..request };
        assert_eq!(Message::decode(&long.encode()[HEAD..]), Ok(long));
    }
}
