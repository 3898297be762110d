//! A probe of a lead broker's port: a CURVE client handshake, which `ZeroMQ` answers by itself, and nothing after it. It
//! distinguishes cases that are the same to a worker which just connects: no listener, another program, another
//! certificate, a certificate that is not let in.

use bytes::Bytes;
use flux_contract::obstacle::ObstacleCause;
use flux_protocol::CurveCertificate;
use omq_proto::proto::{Connection, ConnectionConfig, Role};
use omq_proto::{CurveKeypair, CurvePublicKey, CurveSecretKey, Error, MechanismSetup, SocketType};
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Length of a greeting (RFC 37).
const GREETING_LENGTH: usize = 64;
/// How much of our greeting to send before reading: signature and version. libzmq withholds the rest of its own until
/// it has seen these, and closes the connection when a peer of another mechanism sends everything at once.
const GREETING_OPENING: usize = 12;
/// Bytes of a server up to the end of WELCOME (RFC 26): header, name and body of that follow its greeting.
const THROUGH_WELCOME: usize = GREETING_LENGTH + 2 + 8 + 160;

/// How far a handshake came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The TCP connection is being made.
    Connect,
    /// The greeting of the peer is awaited.
    Greeting,
    /// HELLO was sent, WELCOME is awaited: here the server's key shows.
    Hello,
    /// INITIATE was sent, READY is awaited: here the client's key is judged.
    Initiate,
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "while connecting",
            Self::Greeting => "while its ZeroMQ greeting was awaited",
            Self::Hello => "after the CURVE command HELLO",
            Self::Initiate => "after the CURVE command INITIATE",
        })
    }
}

/// The result of a probe; the text form has the cause, and a remedy where one is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake was completed: a broker with our certificate listens there.
    Accepted,
    /// The server has our certificate but does not let it in; the status is that of ZAP (RFC 27), usually `400`.
    Refused(String),
    /// Another program listens there, with this greeting.
    NotCurve(String),
    /// The server has another certificate.
    WrongKey,
    /// Nothing listens on the port, or the service in front of it has no endpoint yet.
    ConnectionRefused,
    /// There is no route to the address, with the error of the system.
    Unreachable(String),
    /// The answer of this stage did not come in time.
    TimedOut(Stage),
    /// The peer breaks the protocol, or went away during the handshake: the stage, and the error.
    Protocol(Stage, String),
}

impl Outcome {
    /// The kind of obstacle that it is, unless it is none.
    pub(crate) const fn cause(&self) -> ObstacleCause {
        match self {
            Self::WrongKey | Self::Refused(_) => ObstacleCause::Certificate,
            Self::ConnectionRefused | Self::NotCurve(_) => ObstacleCause::Port,
            Self::Unreachable(_) | Self::TimedOut(Stage::Connect) => ObstacleCause::Address,
            Self::Accepted | Self::TimedOut(_) | Self::Protocol(..) => ObstacleCause::Other,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => formatter.write_str("accepted"),
            Self::Refused(status) => write!(
                formatter,
                "the server refused this certificate with status {status}: it is not among those it lets in"
            ),
            Self::NotCurve(seen) => write!(
                formatter,
                "what listens there is no broker with a CURVE certificate: it answered with {seen}"
            ),
            Self::WrongKey => formatter.write_str(
                "the server closed the connection or answered for another key, as one with another CURVE certificate than this pod's does: unless it was just ending, compare their public keys",
            ),
            Self::ConnectionRefused => {
                formatter.write_str("connection refused: nothing listens there yet")
            }
            Self::Unreachable(error) => write!(formatter, "unreachable: {error}"),
            Self::TimedOut(Stage::Connect) => formatter.write_str(
                "no answer to the connection attempt: packets may be dropped on the way, as by a network policy",
            ),
            Self::TimedOut(stage) => write!(formatter, "connected, but no answer {stage}"),
            Self::Protocol(stage, error) => write!(formatter, "{error} {stage}"),
        }
    }
}

/// Performs the handshake with `address` within `whole`, of which `connection` may go for the TCP connection.
/// `certificate` is our own key pair and the server's public key: all brokers of a Flux instance share one.
pub async fn probe(
    address: SocketAddr,
    certificate: &CurveCertificate,
    connection: Duration,
    whole: Duration,
) -> Outcome {
    let begin = Instant::now();
    let deadline = begin + whole;
    let connected = timeout_at(begin + connection.min(whole), TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            return Outcome::ConnectionRefused;
        }
        Ok(Err(error)) if error.kind() != ErrorKind::TimedOut => {
            return Outcome::Unreachable(error.to_string());
        }
        Ok(Err(_)) | Err(_) => return Outcome::TimedOut(Stage::Connect),
    };
    // Small messages go back and forth; without this option the probe is only slower.
    let _ = stream.set_nodelay(true);
    // DEALER is what the children of a broker use.
    let config =
        ConnectionConfig::new(Role::Client, SocketType::Dealer).mechanism(client(certificate));
    let mut link = Link::new(stream, config);
    match timeout_at(deadline, handshake(&mut link)).await {
        Ok(Ok(())) => Outcome::Accepted,
        Ok(Err(error)) => failed(&link, &error),
        Err(_) => Outcome::TimedOut(stage(&link)),
    }
}

fn client(certificate: &CurveCertificate) -> MechanismSetup {
    let public = CurvePublicKey::from_bytes(certificate.public_key());
    let secret = CurveSecretKey::from_bytes(*certificate.secret_key().expose());
    MechanismSetup::CurveClient {
        our_keypair: CurveKeypair { public, secret },
        server_public: public,
    }
}

/// ZMTP, the protocol of `ZeroMQ` sockets, over a stream: the crate `omq-proto` has the protocol and does no input or
/// output.
struct Link {
    stream: TcpStream,
    connection: Connection,
    /// The part of the peer's greeting that has come.
    greeting: Vec<u8>,
    /// How many bytes of the peer were understood.
    understood: usize,
}

impl Link {
    fn new(stream: TcpStream, config: ConnectionConfig) -> Self {
        Self { stream, connection: Connection::new(config), greeting: Vec::new(), understood: 0 }
    }

    async fn ready(&mut self) -> Result<(), Error> {
        while !self.connection.is_ready() {
            while self.connection.has_pending_transmit() {
                self.write(usize::MAX).await?;
            }
            self.read().await?;
        }
        Ok(())
    }

    /// Sends some of the waiting bytes, `limit` at most.
    async fn write(&mut self, limit: usize) -> Result<(), Error> {
        let bytes = self.connection.poll_transmit();
        let written = self.stream.write(&bytes[..limit.min(bytes.len())]).await?;
        self.connection.advance_transmit(written);
        if written == 0 { Err(Error::Closed) } else { Ok(()) }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let mut buffer = [0; 1024];
        let length = self.stream.read(&mut buffer).await?;
        let bytes = &buffer[..length];
        if bytes.is_empty() {
            return Err(Error::Closed);
        }
        let missing = GREETING_LENGTH - self.greeting.len();
        self.greeting.extend(bytes.iter().take(missing));
        self.connection.handle_input(Bytes::copy_from_slice(bytes))?;
        self.understood += length;
        Ok(())
    }
}

async fn handshake(link: &mut Link) -> Result<(), Error> {
    link.write(GREETING_OPENING).await?;
    while link.greeting.len() < GREETING_LENGTH {
        link.read().await?;
        if !may_be_greeting(&link.greeting) {
            return Err(Error::Protocol("it is not ZeroMQ".to_owned()));
        }
    }
    link.ready().await
}

/// Whether `bytes`, as far as they go, can be the beginning of a greeting.
fn may_be_greeting(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|byte| *byte == 0xff) && bytes.get(9).is_none_or(|byte| *byte == 0x7f)
}

fn stage(link: &Link) -> Stage {
    match link.understood {
        ..GREETING_LENGTH => Stage::Greeting,
        GREETING_LENGTH..THROUGH_WELCOME => Stage::Hello,
        THROUGH_WELCOME.. => Stage::Initiate,
    }
}

/// Why the handshake over `link` ended early. A server that cannot open HELLO has another key than we think, and
/// libzmq says so by closing the connection (RFC 26 forbids to answer).
fn failed(link: &Link, error: &Error) -> Outcome {
    let stage = stage(link);
    let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    let closed = matches!(error, Error::Closed)
        || matches!(error, Error::Io(error) if gone.contains(&error.kind()));
    match (stage, error) {
        (_, Error::HandshakeRefused(refusal)) => Outcome::Refused(refusal.reason.clone()),
        (Stage::Hello, Error::HandshakeFailed(_)) => Outcome::WrongKey,
        (Stage::Hello, _) if closed => Outcome::WrongKey,
        (_, _) if closed => Outcome::Protocol(stage, "the peer closed the connection".to_owned()),
        (_, Error::Io(error)) => {
            Outcome::Protocol(stage, format!("the connection failed: {error}"))
        }
        (Stage::Greeting, _) => Outcome::NotCurve(seen(&link.greeting)),
        (_, error) => Outcome::Protocol(stage, error.to_string()),
    }
}

/// The greeting of a peer without CURVE.
fn seen(greeting: &[u8]) -> String {
    if let [_, _, _, _, _, _, _, _, _, _, major, rest @ ..] = greeting
        && may_be_greeting(greeting)
    {
        let (minor, mechanism) = rest.split_first().unwrap_or((&0, &[]));
        let name = mechanism.split(|byte| *byte == 0).next().unwrap_or_default();
        return format!("ZMTP {major}.{minor} {}", name.escape_ascii());
    }
    let start = greeting.get(..24).unwrap_or(greeting).escape_ascii();
    format!("\"{start}\", which is not ZeroMQ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_an_obstacle_of_one_kind() {
        for (outcome, cause) in [
            (Outcome::WrongKey, ObstacleCause::Certificate),
            (Outcome::Refused("400".to_owned()), ObstacleCause::Certificate),
            (Outcome::ConnectionRefused, ObstacleCause::Port),
            (Outcome::NotCurve("SSH-2.0".to_owned()), ObstacleCause::Port),
            (Outcome::Unreachable("no route".to_owned()), ObstacleCause::Address),
            (Outcome::TimedOut(Stage::Connect), ObstacleCause::Address),
            (Outcome::TimedOut(Stage::Hello), ObstacleCause::Other),
        ] {
            assert_eq!(outcome.cause(), cause, "{outcome}");
        }
    }

    #[test]
    fn a_short_greeting_has_a_version() {
        assert_eq!(seen(b"\xff\0\0\0\0\0\0\0\x01\x7f\x01"), "ZMTP 1.0 ");
    }
}
