//! The local socket of a broker (flux-core, `src/common/librouter/usock.c`).
//!
//! The broker first sends one byte, 0 if it accepts the client, else an errno. Messages follow. A broker accepts the owner
//! of the instance, and root where `access.allow-root-owner` is set, which the configuration of a user may lack.

use crate::message::{self, HEAD, Message, REQUEST, RESPONSE};
use nix::errno::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{DumpableBehavior, Uid};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// Addresses the broker at the other end of the socket, whatever its rank.
pub const NODE_ANY: u32 = u32::MAX;
/// The rank of the lead broker, which has the services of the instance.
pub const LEAD: u32 = 0;
/// The broker fills in the user and the roles of a request. It lets the owner name another user, and 0 would be root
/// (flux-core, `librouter/auth.c`).
const UNKNOWN_USER: u32 = u32::MAX;
/// How long the lead may take to answer, perhaps over several brokers.
const LEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before another attempt to connect to a broker whose queue of connections is full.
const FULL_PAUSE: Duration = Duration::from_millis(10);
/// Longest answer that is read. The resource set of a large instance of many kinds of nodes is shorter.
const LARGEST_MESSAGE: u32 = 4 * 1024 * 1024;
const UNEXPECTED: &str = "its payload is not what was asked for";

/// Why a broker has not answered a request.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum SocketError {
    /// The socket does not exist, or no process accepts connections at it.
    #[error("connect to the broker's socket")]
    Connect(#[source] io::Error),
    #[error("talk to the broker")]
    Exchange(#[source] io::Error),
    #[error("the broker refused the connection with errno {errno}")]
    Refused { errno: u8 },
    /// There is no such service, or the service failed.
    #[error("the broker answered {topic} with errno {errno} ({text})")]
    Failed {
        topic: String,
        errno: u32,
        /// The text of the answer, or that of the number.
        text: String,
    },
    #[error("the lead broker has not answered {topic}")]
    Silent { topic: String },
    #[error(
        "the broker's answer to {topic} has {length} bytes, and is read up to {LARGEST_MESSAGE}"
    )]
    TooLong { topic: String, length: u32 },
    #[error("the broker's answer is not a Flux message: {what}")]
    Malformed { what: &'static str },
}

/// The result of a request.
pub(crate) type Result<T> = std::result::Result<T, SocketError>;

impl SocketError {
    /// Whether no broker listens at the socket.
    pub fn is_closed(&self) -> bool {
        let closed = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        matches!(self, Self::Connect(error) if closed.contains(&error.kind()))
    }

    /// Whether the service answered with this `errno`.
    pub fn is(&self, errno: Errno) -> bool {
        matches!(self, Self::Failed { errno: answered, .. } if i32::try_from(*answered) == Ok(errno as i32))
    }
}

/// The result of `answer`, which the service `topic` gives, or [`SocketError::Silent`] after `limit`.
pub async fn within<Answer>(
    limit: Duration,
    topic: &str,
    answer: impl Future<Output = Result<Answer>>,
) -> Result<Answer> {
    let silent = |_| Err(SocketError::Silent { topic: topic.to_owned() });
    timeout(limit, answer).await.unwrap_or_else(silent)
}

/// The socket of a broker, and the user who connects to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// The path of the socket.
    pub socket: PathBuf,
    /// The uid of the owner of the instance, if this process is root and has to connect as that user.
    pub owner: Option<u32>,
}

impl BrokerAddress {
    /// Sends one request over a connection of its own, see [`BrokerSocket::ask`].
    pub async fn ask<Answer: DeserializeOwned>(
        &self,
        topic: &str,
        node: u32,
        payload: Option<&Value>,
    ) -> Result<Answer> {
        self.connect().await?.ask(topic, node, payload).await
    }

    /// Opens a connection. While the broker has too many to accept, this waits.
    pub async fn connect(&self) -> Result<BrokerSocket> {
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
}

/// Connects to the socket at `path`. A broker asks the kernel which user has connected, and on Linux each thread has a user
/// of its own. So a new thread becomes `owner`, connects and ends. It does not wait: where the broker has too many
/// connections to accept, the result is [`io::ErrorKind::WouldBlock`].
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
        // Another kind than `WouldBlock`: the lack of a thread may last.
        let without = |error| io::Error::other(format!("start a thread: {error}"));
        let thread = thread::Builder::new().spawn_scoped(scope, connect).map_err(without)?;
        thread.join().unwrap_or_else(ended)
    });
    if owner.is_some() {
        // The change of user has made the kernel hide `/proc/PID/exe`, by which a program may start itself
        // (PR_SET_DUMPABLE(2const)). Nobody could trace the thread meanwhile: its real and saved users stayed root.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    }
    Ok(socket?.into())
}

/// A connection to a broker.
#[derive(Debug)]
pub struct BrokerSocket {
    stream: UnixStream,
    matchtag: u32,
}

impl BrokerSocket {
    /// Sends a request to the service `topic` of the broker `node` and waits for the answer. An answer without a payload is
    /// `null`.
    pub async fn ask<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
        node: u32,
        payload: Option<&Value>,
    ) -> Result<Answer> {
        self.send(topic, node, payload, false).await?;
        self.receive(topic).await
    }

    /// The same for the lead, whose answer may take at most five seconds.
    pub async fn ask_lead<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
        payload: &Value,
    ) -> Result<Answer> {
        within(LEAD_TIMEOUT, topic, self.ask(topic, LEAD, Some(payload))).await
    }

    /// Sends a request to which the broker `node` answers more than once. Only [`Self::next`] may follow. The broker ends
    /// its work for the request with the connection.
    pub async fn stream(&mut self, topic: &str, node: u32, payload: Option<&Value>) -> Result<()> {
        self.send(topic, node, payload, true).await
    }

    /// Waits for the next answer of that stream; none at its end (RFC 6).
    pub async fn next<Answer: DeserializeOwned>(&mut self, topic: &str) -> Result<Option<Answer>> {
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
    ) -> Result<()> {
        self.matchtag = self.matchtag.wrapping_add(1).max(1);
        let request = Message {
            kind: REQUEST,
            streaming,
            topic: topic.to_owned(),
            payload: payload.map(Value::to_string),
            user: UNKNOWN_USER,
            roles: 0,
            node,
            matchtag: self.matchtag,
        };
        self.stream.write_all(&request.encode()).await.map_err(SocketError::Exchange)
    }

    /// Waits for the next answer to the last request.
    pub(super) async fn receive<Answer: DeserializeOwned>(
        &mut self,
        topic: &str,
    ) -> Result<Answer> {
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

/// The field `name` of an answer.
pub(super) fn field<Field: DeserializeOwned>(mut answer: Value, name: &str) -> Result<Field> {
    let field = answer.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(field).map_err(|_| SocketError::Malformed { what: UNEXPECTED })
}

/// Reads the frames of an answer.
fn answer_of<Answer: DeserializeOwned>(topic: &str, matchtag: u32, body: &[u8]) -> Result<Answer> {
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
    serde_json::from_str(text).map_err(|_| malformed(UNEXPECTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::net::UnixListener;

    #[test]
    fn answers_to_other_requests_are_refused() {
        let answer = |matchtag, node, payload: &str| {
            let payload = Some(payload.to_owned());
            let answer = Message { kind: RESPONSE, node, matchtag, payload, ..Message::default() };
            answer_of::<Value>("a.b", 1, &answer.encode()[HEAD..])
        };
        assert_eq!(answer(1, 0, r#"{"a":"b"}"#).unwrap(), json!({ "a": "b" }));
        let late = answer(2, 0, "{}");
        assert!(matches!(late, Err(SocketError::Malformed { .. })), "{late:?}");
        let refused = answer(1, 38, "No service matching foo.bar is registered");
        assert!(matches!(refused, Err(SocketError::Failed { errno: 38, .. })), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_a_full_broker() {
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
