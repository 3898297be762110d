//! Asks the local broker over its own socket: for its state, and for what its instance says of its rank.
//! `flux uptime` would be a process for every question, and up to Flux 0.88 it crashes where the user has no passwd
//! entry.
//!
//! After one byte that says whether the connection is accepted, each message (RFC 3) is a magic number, the length of
//! its frames, and the frames. Only the owner of the instance is let in, and root where `access.allow-root-owner`
//! says so, which a user's own configuration may not.

use nix::errno::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{DumpableBehavior, Uid};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// Begins every message on a local socket of Flux, in the byte order of the host.
const MESSAGE_MAGIC: u32 = 0xffee_0012;
/// Begins the last frame of every message (RFC 3).
const PROTOCOL_MAGIC: u8 = 0x8e;
const PROTOCOL_VERSION: u8 = 1;
const PROTOCOL_FRAME: usize = 20;
const TYPE_REQUEST: u8 = 1;
const TYPE_RESPONSE: u8 = 2;
const FLAG_TOPIC: u8 = 0x01;
const FLAG_PAYLOAD: u8 = 0x02;
const FLAG_ROUTE: u8 = 0x08;
const FLAG_STREAMING: u8 = 0x40;
/// The broker at the other end of the socket, whatever its rank.
pub(crate) const NODE_ANY: u32 = u32::MAX;
/// The broker fills in who asks, user and roles. Of the instance's owner it takes any user that is named, and 0 would be
/// root (flux-core, `librouter/auth.c`).
const WHO_CONNECTS: u32 = u32::MAX;
/// The lead, whom services are asked that it alone has.
pub(crate) const LEAD: u32 = 0;
/// How long its answer may take: it may come over several brokers.
const LEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The service that every broker has for its own state.
const STATE: &str = "state-machine.get";
/// The service that answers with every change of that state.
const STATE_CHANGES: &str = "state-machine.monitor";
/// The service that every broker has for groups of brokers.
const GROUP: &str = "groups.get";
/// How long a broker may take to tell its state, which it does from memory.
const STATE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before a broker that has many to accept is asked again.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// The resource set of a large instance of many kinds of nodes is shorter; anything longer is no answer.
const LARGEST_MESSAGE: u32 = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("connect to the broker's socket")]
    Connect(#[source] io::Error),
    #[error("talk to the broker")]
    Exchange(#[source] io::Error),
    #[error("the broker refused the connection with errno {errno}")]
    Refused { errno: u8 },
    /// The broker does not offer the service, or failed to serve.
    #[error("the broker answered {topic} with errno {errno} ({text})")]
    Failed { topic: String, errno: u32, text: String },
    #[error("the lead broker has not answered {topic}")]
    Silent { topic: String },
    #[error("the broker's answer is not a Flux message: {what}")]
    Malformed { what: &'static str },
}

impl SocketError {
    /// Whether nobody listens at the socket, or there is none.
    pub(crate) fn is_closed(&self) -> bool {
        let closed = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        matches!(self, Self::Connect(error) if closed.contains(&error.kind()))
    }

    /// Whether `errno` is the broker's answer.
    pub(crate) fn is(&self, errno: Errno) -> bool {
        matches!(self, Self::Failed { errno: answered, .. } if i32::try_from(*answered) == Ok(errno as i32))
    }
}

/// Where the local broker is asked, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Its socket.
    pub socket: PathBuf,
    /// The owner of the instance, where that is another user than this process'.
    pub owner: Option<u32>,
}

impl BrokerAddress {
    pub(crate) async fn connect(&self) -> Result<BrokerSocket, SocketError> {
        let stream = loop {
            match connected(&self.socket, self.owner) {
                // A broker has five places for those that it has not accepted yet (flux-core, `usock.c`).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(FULL_PAUSE).await,
                connected => break connected,
            }
        };
        let mut stream = stream.and_then(UnixStream::from_std).map_err(SocketError::Connect)?;
        match stream.read_u8().await.map_err(SocketError::Exchange)? {
            0 => Ok(BrokerSocket { stream, matchtag: 0 }),
            errno => Err(SocketError::Refused { errno }),
        }
    }

    /// The state of the broker, in its own word: `join`, `init`, `quorum`, `run`, `cleanup`, ...
    pub(crate) async fn state(&self) -> Result<String, SocketError> {
        let state = async { self.connect().await?.state(NODE_ANY).await };
        let silent = || Err(SocketError::Silent { topic: STATE.to_owned() });
        timeout(STATE_TIMEOUT, state).await.unwrap_or_else(|_| silent())
    }

    /// Asks the broker which brokers are online, and disconnects.
    pub(crate) async fn ask_of_groups(&self) -> Result<(), SocketError> {
        let payload = json!({ "name": "broker.online" });
        let asked = async {
            let mut connection = self.connect().await?;
            let _: Value = connection.ask(GROUP, NODE_ANY, Some(&payload)).await?;
            Ok(())
        };
        let silent = || Err(SocketError::Silent { topic: GROUP.to_owned() });
        timeout(STATE_TIMEOUT, asked).await.unwrap_or_else(|_| silent())
    }
}

/// A stream to the socket at `path`. A broker asks the kernel who has connected, and on Linux users are those of
/// threads: one of its own becomes `owner` and ends with the answer, for which it does not wait: where the broker has
/// too many to accept, that is [`io::ErrorKind::WouldBlock`].
fn connected(path: &Path, owner: Option<u32>) -> io::Result<std::os::unix::net::UnixStream> {
    let connect = || -> io::Result<OwnedFd> {
        if let Some(uid) = owner {
            rustix::thread::set_thread_res_uid(None, Uid::from_raw(uid), None)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    };
    let ended = |_| Err(io::Error::other("the thread has ended"));
    let socket = thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, connect)?;
        thread.join().unwrap_or_else(ended)
    });
    if owner.is_some() {
        // A change of user makes the kernel hide `/proc/PID/exe`, by which PID 1 starts itself (PR_SET_DUMPABLE(2const)).
        // The thread was root all the same, but for its effective user: nobody else could trace it.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    Ok(socket?.into())
}

#[derive(Debug)]
pub(crate) struct BrokerSocket {
    stream: UnixStream,
    matchtag: u32,
}

impl BrokerSocket {
    /// The state of the broker `node`, asked through the brokers in between.
    pub(crate) async fn state(&mut self, node: u32) -> Result<String, SocketError> {
        let answer: State = self.ask(STATE, node, None).await?;
        Ok(answer.state)
    }

    /// Asks to be answered with every change of the broker's state: by [`Self::state_change`] alone from then on.
    pub(crate) async fn monitor_state(&mut self) -> Result<(), SocketError> {
        self.send(STATE_CHANGES, NODE_ANY, None, FLAG_STREAMING).await
    }

    /// Waits for the next change. The answer names the state by a number that differs between releases of Flux.
    pub(crate) async fn state_change(&mut self) -> Result<(), SocketError> {
        let _: Value = self.receive(STATE_CHANGES).await?;
        Ok(())
    }

    /// What the service `topic` of the broker `node` answers. An answer without a payload is `null`.
    pub(crate) async fn ask<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
        node: u32,
        payload: Option<&Value>,
    ) -> Result<Answer, SocketError> {
        self.send(topic, node, payload, 0).await?;
        self.receive(topic).await
    }

    /// The same of the lead, if it answers in time.
    pub(crate) async fn ask_lead<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
        payload: &Value,
    ) -> Result<Answer, SocketError> {
        let answer = timeout(LEAD_TIMEOUT, self.ask(topic, LEAD, Some(payload))).await;
        answer.unwrap_or_else(|_| Err(SocketError::Silent { topic: topic.to_owned() }))
    }

    /// Asks the lead to answer `topic` more than once: by [`Self::next`] alone from then on. The broker ends what it does
    /// for this when the connection ends.
    pub(crate) async fn stream(&mut self, topic: &str, payload: &Value) -> Result<(), SocketError> {
        self.send(topic, LEAD, Some(payload), FLAG_STREAMING).await
    }

    /// Waits for the next answer of that stream; there is none behind its end (RFC 6).
    pub(crate) async fn next<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
    ) -> Result<Option<Answer>, SocketError> {
        match self.receive(topic).await {
            Err(error) if error.is(Errno::ENODATA) => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn send(
        &mut self,
        topic: &str,
        node: u32,
        payload: Option<&Value>,
        flags: u8,
    ) -> Result<(), SocketError> {
        self.matchtag = self.matchtag.wrapping_add(1).max(1);
        let request = request(self.matchtag, topic, node, payload, flags);
        self.stream.write_all(&request).await.map_err(SocketError::Exchange)
    }

    /// The next answer to the question that was sent last.
    async fn receive<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
    ) -> Result<Answer, SocketError> {
        let exchange = SocketError::Exchange;
        let mut magic = [0; 4];
        self.stream.read_exact(&mut magic).await.map_err(exchange)?;
        let length = self.stream.read_u32().await.map_err(exchange)?;
        if magic != MESSAGE_MAGIC.to_ne_bytes() || length > LARGEST_MESSAGE {
            return Err(SocketError::Malformed { what: "it does not begin as one" });
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.map_err(exchange)?;
        answer_of(topic, self.matchtag, &body)
    }
}

/// The question as it goes over the socket: an empty route, the topic, the payload if there is one, the
/// protocol frame.
fn request(matchtag: u32, topic: &str, node: u32, payload: Option<&Value>, flags: u8) -> Vec<u8> {
    let mut body = Vec::new();
    push_frame(&mut body, &[]);
    push_frame(&mut body, topic.as_bytes());
    let mut flags = flags | FLAG_TOPIC | FLAG_ROUTE;
    if let Some(payload) = payload {
        flags |= FLAG_PAYLOAD;
        // JSON payloads end with a NUL.
        push_frame(&mut body, format!("{payload}\0").as_bytes());
    }
    let mut protocol = vec![PROTOCOL_MAGIC, PROTOCOL_VERSION, TYPE_REQUEST, flags];
    for word in [WHO_CONNECTS, 0, node, matchtag] {
        protocol.extend(word.to_be_bytes());
    }
    push_frame(&mut body, &protocol);
    message(&body)
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [MESSAGE_MAGIC.to_ne_bytes().as_slice(), &length.to_be_bytes(), body].concat()
}

/// Appends a frame with its length: one byte, or 255 and four bytes.
fn push_frame(body: &mut Vec<u8>, frame: &[u8]) {
    match u8::try_from(frame.len()) {
        Ok(length) if length < u8::MAX => body.push(length),
        _ => {
            body.push(u8::MAX);
            body.extend(u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    body.extend(frame);
}

fn frames(mut body: &[u8]) -> Result<Vec<&[u8]>, SocketError> {
    let short = SocketError::Malformed { what: "a frame is cut off" };
    let mut frames = Vec::new();
    while let Some((&first, rest)) = body.split_first() {
        let (length, rest) = if first == u8::MAX {
            let Some((bytes, rest)) = rest.split_first_chunk::<4>() else { return Err(short) };
            (u32::from_be_bytes(*bytes) as usize, rest)
        } else {
            (usize::from(first), rest)
        };
        if rest.len() < length {
            return Err(short);
        }
        let (frame, rest) = rest.split_at(length);
        frames.push(frame);
        body = rest;
    }
    Ok(frames)
}

#[derive(Debug, Deserialize)]
struct State {
    state: String,
}

fn answer_of<Answer: DeserializeOwned>(
    topic: &str,
    matchtag: u32,
    body: &[u8],
) -> Result<Answer, SocketError> {
    let malformed = |what| SocketError::Malformed { what };
    let frames = frames(body)?;
    let (protocol, others) =
        frames.split_last().ok_or(SocketError::Malformed { what: "it is empty" })?;
    let protocol: &[u8; PROTOCOL_FRAME] =
        (*protocol).try_into().map_err(|_| malformed("its protocol frame has another size"))?;
    let [magic, version, kind, flags, _, _, _, _, _, _, _, _, e0, e1, e2, e3, tag @ ..] = *protocol;
    if (magic, version, kind) != (PROTOCOL_MAGIC, PROTOCOL_VERSION, TYPE_RESPONSE) {
        return Err(malformed("it is not a response"));
    }
    if tag != matchtag.to_be_bytes() {
        return Err(malformed("it answers another question"));
    }
    let errno = u32::from_be_bytes([e0, e1, e2, e3]);
    let payload = others.last().filter(|_| flags & FLAG_PAYLOAD != 0);
    let payload = payload.map(|payload| payload.strip_suffix(&[0]).unwrap_or(payload));
    if errno != 0 {
        let own = || Errno::from_raw(i32::try_from(errno).unwrap_or_default()).desc().to_owned();
        let text = payload.map_or_else(own, |text| String::from_utf8_lossy(text).into_owned());
        return Err(SocketError::Failed { topic: topic.to_owned(), errno, text });
    }
    let text = payload.unwrap_or(b"null");
    serde_json::from_slice(text).map_err(|_| malformed("its payload is not what was asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    fn state_of(body: &[u8]) -> Result<String, SocketError> {
        answer_of::<State>(STATE, 1, body).map(|answer| answer.state)
    }

    /// The answer of a broker, as recorded from flux-core 0.88.
    fn answer_to(matchtag: u32, errno: u32, payload: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        push_frame(&mut body, &[]);
        push_frame(&mut body, STATE.as_bytes());
        push_frame(&mut body, payload);
        let mut protocol = vec![PROTOCOL_MAGIC, 1, TYPE_RESPONSE, 0x0b, 0, 0, 3, 232, 0, 0, 0, 1];
        protocol.extend(errno.to_be_bytes());
        protocol.extend(matchtag.to_be_bytes());
        push_frame(&mut body, &protocol);
        body
    }

    #[test]
    fn the_state_is_read_from_the_payload_of_the_answer_to_this_question() {
        let state = b"{\"state\":\"run\",\"duration\":1.5}\0";
        assert_eq!(state_of(&answer_to(1, 0, state)).unwrap(), "run");
        let late = state_of(&answer_to(2, 0, state));
        assert!(matches!(late, Err(SocketError::Malformed { .. })), "{late:?}");
        let refused = state_of(&answer_to(1, 38, b"No service matching foo.bar is registered\0"));
        assert!(matches!(refused, Err(SocketError::Failed { errno: 38, .. })), "{refused:?}");
    }

    #[test]
    fn no_message_makes_the_reader_panic() {
        let body = answer_to(1, 0, b"{\"state\":\"run\"}\0");
        for end in 0..body.len() {
            assert!(state_of(&body[..end]).is_err(), "cut at {end}");
        }
        assert!(state_of(&[0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_a_broker_that_has_many_to_accept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("local");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let listener = std::os::unix::net::UnixListener::from(socket);
        let mut waiting = Vec::new();
        while let Ok(stream) = connected(&path, None) {
            waiting.push(stream);
        }
        let address = BrokerAddress { socket: path, owner: None };
        let accept = async {
            sleep(Duration::from_secs(1)).await;
            let mut streams = Vec::new();
            for _ in 0..=waiting.len() {
                let mut stream = listener.accept().unwrap().0;
                io::Write::write_all(&mut stream, &[0]).unwrap();
                streams.push(stream);
                sleep(Duration::from_secs(1)).await;
            }
        };
        let (connected, ()) = tokio::join!(address.connect(), accept);
        assert!(connected.is_ok(), "{connected:?}");
    }

    #[tokio::test]
    async fn a_connection_may_be_refused() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("local");
        let listener = UnixListener::bind(&socket).unwrap();
        let refuse = async { listener.accept().await.unwrap().0.write_all(&[1]).await.unwrap() };
        let address = BrokerAddress { socket, owner: None };
        let (connected, ()) = tokio::join!(address.connect(), refuse);
        assert!(matches!(connected, Err(SocketError::Refused { errno: 1 })), "{connected:?}");
    }
}
