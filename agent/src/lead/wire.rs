//! ZMTP 3.1 as bytes: the greeting and command frames (RFC 37). Pure: no sockets here.

/// Length of a whole greeting.
pub(super) const GREETING_LENGTH: usize = 64;
/// How much of it to send before reading: signature and version. libzmq withholds the rest of its
/// own greeting until it has seen the version of its peer, and closes the connection when a peer
/// of another mechanism sends everything at once.
pub(super) const GREETING_OPENING: usize = 12;
/// Longest command taken from a peer. Those of a handshake have a few hundred bytes.
const COMMAND_LIMIT: usize = 4096;

const FLAG_LONG: u8 = 0x02;
const FLAG_COMMAND: u8 = 0x04;

/// The greeting of a CURVE client that speaks ZMTP 3.1.
pub(super) fn client_greeting() -> [u8; GREETING_LENGTH] {
    let mut greeting = [0; GREETING_LENGTH];
    (greeting[0], greeting[9], greeting[10], greeting[11]) = (0xff, 0x7f, 3, 1);
    greeting[12..17].copy_from_slice(b"CURVE");
    greeting
}

/// Whether `bytes`, as far as they go, can be the beginning of a greeting.
pub(super) fn may_be_greeting(bytes: &[u8]) -> bool {
    let signature = |(at, byte): (usize, &u8)| match at {
        0 => *byte == 0xff,
        9 => *byte == 0x7f,
        _ => true,
    };
    bytes.iter().enumerate().take(10).all(signature)
}

/// What a peer says of itself in its greeting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Version of ZMTP.
    pub(super) version: (u8, u8),
    /// Security mechanism: `NULL`, `PLAIN`, `CURVE` or another.
    pub(super) mechanism: String,
}

/// Reads a greeting whose signature was checked with [`may_be_greeting`].
pub(super) fn read_greeting(bytes: &[u8; GREETING_LENGTH]) -> Greeting {
    let mechanism = String::from_utf8_lossy(&bytes[12..32]).trim_end_matches('\0').to_owned();
    Greeting { version: (bytes[10], bytes[11]), mechanism }
}

/// A command: its name and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Command {
    /// The command `name` with `body`; the name must be shorter than 256 bytes.
    pub(super) fn new(name: &str, body: Vec<u8>) -> Self {
        Self { name: name.as_bytes().to_vec(), body }
    }

    /// The command as a frame.
    pub(super) fn to_frame(&self) -> Vec<u8> {
        let length = 1 + self.name.len() + self.body.len();
        let mut frame = if let Ok(length) = u8::try_from(length) {
            vec![FLAG_COMMAND, length]
        } else {
            let mut header = vec![FLAG_COMMAND | FLAG_LONG];
            header.extend((length as u64).to_be_bytes());
            header
        };
        frame.push(u8::try_from(self.name.len()).unwrap_or(u8::MAX));
        frame.extend(&self.name);
        frame.extend(&self.body);
        frame
    }

    /// Takes the first frame off `buffer`; `None` when it is not whole yet.
    pub(super) fn take(buffer: &mut Vec<u8>) -> Result<Option<Self>, WireError> {
        let Some((header, length)) = frame_header(buffer)? else { return Ok(None) };
        if buffer.len() < header + length {
            return Ok(None);
        }
        let frame: Vec<u8> = buffer.drain(..header + length).skip(header).collect();
        let (name_length, rest) = frame.split_first().ok_or(WireError::Short)?;
        let (name, body) =
            rest.split_at_checked(usize::from(*name_length)).ok_or(WireError::Short)?;
        Ok(Some(Self { name: name.to_vec(), body: body.to_vec() }))
    }

    /// The name as text, for messages.
    pub(super) fn name_text(&self) -> String {
        self.name.escape_ascii().to_string()
    }

    /// The reason an ERROR command gives: a text preceded by its length. libzmq puts the status
    /// code of ZAP there (RFC 27), as `400`.
    pub(super) fn error_reason(&self) -> String {
        let reason = match self.body.split_first() {
            Some((length, rest)) => rest.get(..usize::from(*length)).unwrap_or(rest),
            None => &[],
        };
        reason.escape_ascii().to_string()
    }
}

/// Length of the header and of what follows it; `None` when the header is not whole yet.
fn frame_header(buffer: &[u8]) -> Result<Option<(usize, usize)>, WireError> {
    let Some((flags, rest)) = buffer.split_first() else { return Ok(None) };
    if flags & FLAG_COMMAND == 0 {
        return Err(WireError::NotACommand);
    }
    let (header, length) = if flags & FLAG_LONG == 0 {
        let Some(length) = rest.first() else { return Ok(None) };
        (2, u64::from(*length))
    } else {
        let Some(length) = rest.first_chunk::<8>() else { return Ok(None) };
        (9, u64::from_be_bytes(*length))
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > COMMAND_LIMIT {
        return Err(WireError::Long { length });
    }
    Ok(Some((header, length)))
}

/// Bytes that are no command of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("a message came where a handshake command was expected")]
    NotACommand,
    #[error("a handshake command of {length} bytes is longer than any")]
    Long { length: usize },
    #[error("a handshake command ends before its name does")]
    Short,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn our_greeting_says_zmtp_3_1_and_curve() {
        let greeting = client_greeting();
        assert!(may_be_greeting(&greeting));
        let expected = Greeting { version: (3, 1), mechanism: "CURVE".to_owned() };
        assert_eq!(read_greeting(&greeting), expected);
    }

    #[test]
    fn other_protocols_are_told_from_a_greeting_by_their_first_bytes() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\xff\0\0\0\0\0\0\0\0\0",
        ] {
            assert!(!may_be_greeting(bytes), "{}", bytes.escape_ascii());
        }
        assert!(may_be_greeting(b"") && may_be_greeting(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03"));
    }

    #[test]
    fn an_error_gives_its_reason_even_when_its_length_is_wrong() {
        let reason = |body: &[u8]| Command::new("ERROR", body.to_vec()).error_reason();
        assert_eq!(
            (reason(b"\x03400"), reason(b"\x09400"), reason(b"")),
            ("400".into(), "400".into(), String::new())
        );
    }

    #[test]
    fn a_frame_that_claims_to_be_huge_is_refused_before_it_is_read() {
        let mut buffer = vec![FLAG_COMMAND | FLAG_LONG, 0xff, 0, 0, 0, 0, 0, 0, 0];
        assert!(matches!(Command::take(&mut buffer), Err(WireError::Long { .. })));
        assert_eq!(Command::take(&mut vec![0, 1, 0]), Err(WireError::NotACommand));
        assert_eq!(Command::take(&mut vec![FLAG_COMMAND, 2, 9, 0]), Err(WireError::Short));
    }

    proptest! {
        #[test]
        fn a_command_is_read_back_whole_wherever_the_stream_is_cut(
            name in "[A-Z]{0,20}", body in prop::collection::vec(any::<u8>(), 0..600), cut: prop::sample::Index,
        ) {
            let command = Command::new(&name, body);
            let frame = command.to_frame();
            let cut = cut.index(frame.len());
            let mut buffer = frame[..cut].to_vec();
            prop_assert_eq!(Command::take(&mut buffer), Ok(None));
            buffer.extend(&frame[cut..]);
            buffer.push(7);
            prop_assert_eq!(Command::take(&mut buffer), Ok(Some(command)));
            prop_assert_eq!(buffer, vec![7]);
        }

        #[test]
        fn no_input_is_too_odd_to_answer(mut buffer: Vec<u8>) {
            let _ = Command::take(&mut buffer);
            let _ = may_be_greeting(&buffer);
        }
    }
}
