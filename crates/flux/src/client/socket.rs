//! Asks the local broker over its own socket: for its state, and for what its instance says of its rank.
//! `flux uptime` would be a process for every question, and up to Flux 0.88 it crashes where the user has no passwd
//! entry.
//!
//! After one byte that says whether the connection is accepted come messages. Only the owner of the instance is let in,
//! and root where `access.allow-root-owner` says so, which a user's own configuration may not.

use flux_contract::message::{self, HEAD, Message, REQUEST, RESPONSE};
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
    #[error(
        "the broker's answer to {topic} has {length} bytes, and is read up to {LARGEST_MESSAGE}"
    )]
    TooLong { topic: String, length: u32 },
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
        // Not the error of a broker that has many to accept: this one may stay.
        let without = |error| io::Error::other(format!("start a thread: {error}"));
        let thread = thread::Builder::new().spawn_scoped(scope, connect).map_err(without)?;
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
        self.send(STATE_CHANGES, NODE_ANY, None, true).await
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
        self.send(topic, node, payload, false).await?;
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
        self.send(topic, LEAD, Some(payload), true).await
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
        streaming: bool,
    ) -> Result<(), SocketError> {
        self.matchtag = self.matchtag.wrapping_add(1).max(1);
        let request = Message {
            kind: REQUEST,
            streaming,
            topic: topic.to_owned(),
            payload: payload.map(Value::to_string),
            user: WHO_CONNECTS,
            roles: 0,
            node,
            matchtag: self.matchtag,
        };
        self.stream.write_all(&request.encode()).await.map_err(SocketError::Exchange)
    }

    /// The next answer to the question that was sent last.
    async fn receive<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
    ) -> Result<Answer, SocketError> {
        let exchange = SocketError::Exchange;
        let mut head = [0; HEAD];
        self.stream.read_exact(&mut head).await.map_err(exchange)?;
        let Some(length) = message::length(head) else {
            return Err(SocketError::Malformed { what: "it does not begin as one" });
        };
        if length > LARGEST_MESSAGE {
            return Err(SocketError::TooLong { topic: topic.to_owned(), length });
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.map_err(exchange)?;
        answer_of(topic, self.matchtag, &body)
    }
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
    let message = Message::decode(body).map_err(malformed)?;
    if message.kind != RESPONSE {
        return Err(malformed("it is not a response"));
    }
    if message.matchtag != matchtag {
        return Err(malformed("it answers another question"));
    }
    let (errno, payload) = (message.node, message.payload);
    if errno != 0 {
        let own = || Errno::from_raw(i32::try_from(errno).unwrap_or_default()).desc().to_owned();
        let text = payload.unwrap_or_else(own);
        return Err(SocketError::Failed { topic: topic.to_owned(), errno, text });
    }
    let text = payload.as_deref().unwrap_or("null");
    serde_json::from_str(text).map_err(|_| malformed("its payload is not what was asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    fn state_of(body: &[u8]) -> Result<String, SocketError> {
        answer_of::<State>(STATE, 1, body).map(|answer| answer.state)
    }

    #[test]
    fn the_state_is_read_from_the_payload_of_the_answer_to_this_question() {
        let answer = |matchtag, node, payload: &str| {
            let payload = Some(payload.to_owned());
            let answer = Message { kind: RESPONSE, node, matchtag, payload, ..Message::default() };
            state_of(&answer.encode()[HEAD..])
        };
        let state = r#"{"state":"run","duration":1.5}"#;
        assert_eq!(answer(1, 0, state).unwrap(), "run");
        let late = answer(2, 0, state);
        assert!(matches!(late, Err(SocketError::Malformed { .. })), "{late:?}");
        let refused = answer(1, 38, "No service matching foo.bar is registered");
        assert!(matches!(refused, Err(SocketError::Failed { errno: 38, .. })), "{refused:?}");
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
