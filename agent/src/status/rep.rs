//! The REP end of one connection: ZMTP 3.0 with the security mechanism NULL (RFC 23), for questions of
//! a bounded length. No byte that a client sends, or keeps back, costs more than its own connection.

use std::io::{self, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const GREETING_LENGTH: usize = 64;
const FLAG_MORE: u8 = 0x01;
const FLAG_LONG: u8 = 0x02;
const FLAG_COMMAND: u8 = 0x04;
/// Longest frame of a question, and of a handshake. Ours have some fifty bytes.
const FRAME_LIMIT: u64 = 4096;
/// Most frames of one message: the question's own, and its envelope.
const FRAMES_LIMIT: usize = 16;

/// A client that has greeted.
pub(super) struct Connection {
    stream: UnixStream,
    /// What the answer begins with: the frames up to the empty one.
    envelope: Vec<Vec<u8>>,
}

struct Frame {
    flags: u8,
    body: Vec<u8>,
}

impl Connection {
    /// Exchanges greetings and READY with the client.
    pub(super) async fn accept(mut stream: UnixStream) -> io::Result<Self> {
        stream.write_all(&greeting()).await?;
        let mut theirs = [0; GREETING_LENGTH];
        stream.read_exact(&mut theirs).await?;
        if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 {
            return Err(wrong("its greeting is none of ZMTP 3"));
        }
        stream.write_all(&frame(FLAG_COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03REP")).await?;
        let mut connection = Self { stream, envelope: Vec::new() };
        let ready = connection.frame().await?;
        if ready.flags & FLAG_COMMAND == 0 || !ready.body.starts_with(b"\x05READY") {
            return Err(wrong("it is not READY"));
        }
        Ok(connection)
    }

    pub(super) async fn question(&mut self) -> io::Result<Vec<u8>> {
        self.envelope.clear();
        let mut question = None;
        for _ in 0..FRAMES_LIMIT {
            let Frame { flags, body } = self.frame().await?;
            if flags & FLAG_COMMAND != 0 {
                return Err(wrong("it sends a command after the handshake"));
            }
            if self.envelope.last().is_none_or(|frame| !frame.is_empty()) {
                self.envelope.push(body);
            } else {
                question.get_or_insert(body);
            }
            if flags & FLAG_MORE == 0 {
                return question.ok_or_else(|| wrong("its question has no envelope"));
            }
        }
        Err(wrong("its question has too many frames"))
    }

    /// Answers the question that came last.
    pub(super) async fn answer(&mut self, text: &str) -> io::Result<()> {
        let mut bytes: Vec<u8> =
            self.envelope.iter().flat_map(|envelope| frame(FLAG_MORE, envelope)).collect();
        bytes.extend(frame(0, text.as_bytes()));
        self.stream.write_all(&bytes).await
    }

    /// Waits until the client has gone, or says something though it is not its turn.
    pub(super) async fn gone(&mut self) {
        let _ = self.stream.read_u8().await;
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        let flags = self.stream.read_u8().await?;
        let length = if flags & FLAG_LONG == 0 {
            self.stream.read_u8().await?.into()
        } else {
            self.stream.read_u64().await?
        };
        if length > FRAME_LIMIT {
            return Err(wrong("its frame is too long"));
        }
        let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.stream.read_exact(&mut body).await?;
        Ok(Frame { flags, body })
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn greeting() -> [u8; GREETING_LENGTH] {
    let mut greeting = [0; GREETING_LENGTH];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(length) => vec![flags, length],
        Err(_) => [&[flags | FLAG_LONG][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    bytes.extend(body);
    bytes
}
