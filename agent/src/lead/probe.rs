//! Asking a lead broker's port whether it would let us in: a CURVE client handshake and nothing
//! after it.
//!
//! The handshake reaches no code of the broker: `ZeroMQ` answers it by itself, and the broker sees
//! no message. It tells apart what a worker that just connects could not: nobody there, somebody
//! else there, another certificate, a certificate that is not let in.

use crate::lead::curve::{Client, CurveError, Randomness};
use crate::lead::wire::{self, Command, GREETING_LENGTH, GREETING_OPENING};
use flux_contract::CurveCertificate;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

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

/// What a probe found; the text form names the cause, and what to look at where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake was completed: a broker with our certificate listens there.
    Accepted,
    /// The server has our certificate but does not let it in; `status` is that of ZAP (RFC 27).
    Refused {
        /// The status code, usually `400`.
        status: String,
    },
    /// Something else listens there.
    NotCurve {
        /// What it says of itself.
        seen: String,
    },
    /// The server has another certificate.
    WrongKey,
    /// Nothing listens on the port, or the service in front of it has no endpoint yet.
    ConnectionRefused,
    /// There is no way to the address.
    Unreachable {
        /// What the system said.
        error: String,
    },
    /// No answer came in time.
    TimedOut {
        /// What was awaited.
        stage: Stage,
    },
    /// The peer speaks CURVE but not as it should, or went away in between.
    Protocol {
        /// When.
        stage: Stage,
        /// What was wrong.
        error: String,
    },
}

impl Outcome {
    /// True when a broker with this certificate would be let in.
    pub const fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted)
    }

    /// True when a server is there that will not let this certificate in. Waiting rarely helps;
    /// the pod of a cluster that is being replaced may answer so for a moment, though.
    pub const fn is_certificate_problem(&self) -> bool {
        matches!(self, Self::WrongKey | Self::Refused { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => formatter.write_str("accepted"),
            Self::Refused { status } => write!(
                formatter,
                "the server refused this certificate with status {status}: it is not among those it lets in"
            ),
            Self::NotCurve { seen } => write!(
                formatter,
                "what listens there is no broker with a CURVE certificate: it answered with {seen}"
            ),
            Self::WrongKey => formatter.write_str(
                "the server closed the connection or answered for another key, as one with another CURVE certificate than this pod's does: unless it was just ending, compare their public keys",
            ),
            Self::ConnectionRefused => {
                formatter.write_str("connection refused: nothing listens there yet")
            }
            Self::Unreachable { error } => write!(formatter, "unreachable: {error}"),
            Self::TimedOut { stage: Stage::Connect } => formatter.write_str(
                "no answer to the connection attempt: packets may be dropped on the way, as by a network policy",
            ),
            Self::TimedOut { stage } => write!(formatter, "connected, but no answer {stage}"),
            Self::Protocol { stage, error } => write!(formatter, "{error} {stage}"),
        }
    }
}

/// How long a probe may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The TCP connection.
    pub connection: Duration,
    /// All of it.
    pub whole: Duration,
}

impl From<Duration> for Patience {
    /// `whole` in all, for whatever takes it.
    fn from(whole: Duration) -> Self {
        Self { connection: whole, whole }
    }
}

/// Performs a CURVE client handshake with `address` within `patience` and closes the connection.
///
/// `certificate` is our own key pair and the server's public key as well: all brokers of a Flux
/// instance share one.
pub async fn probe(
    address: SocketAddr,
    certificate: &CurveCertificate,
    patience: Patience,
) -> Outcome {
    let begin = Instant::now();
    let deadline = begin + patience.whole;
    let connection = (begin + patience.connection).min(deadline);
    let connected = timeout_at(connection, TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return not_connected(&error),
        Err(_) => return Outcome::TimedOut { stage: Stage::Connect },
    };
    // Small messages go back and forth; without this option the probe is only slower.
    let _ = stream.set_nodelay(true);
    match (Peer { stream, deadline, received: Vec::new() }).handshake(certificate).await {
        Ok(()) => Outcome::Accepted,
        Err(outcome) => outcome,
    }
}

fn not_connected(error: &io::Error) -> Outcome {
    if error.kind() == ErrorKind::ConnectionRefused {
        Outcome::ConnectionRefused
    } else if error.kind() == ErrorKind::TimedOut {
        Outcome::TimedOut { stage: Stage::Connect }
    } else {
        Outcome::Unreachable { error: error.to_string() }
    }
}

/// A connection and what came over it and is not consumed yet.
struct Peer {
    stream: TcpStream,
    deadline: Instant,
    received: Vec<u8>,
}

impl Peer {
    /// `Err` holds why the handshake ended early.
    async fn handshake(&mut self, certificate: &CurveCertificate) -> Result<(), Outcome> {
        self.exchange_greetings().await?;

        let client = Client::new(certificate, &randomness()?);
        let faulty = |stage| move |error: CurveError| fault(stage, &error);
        let hello = client.hello().map_err(faulty(Stage::Hello))?;
        let welcome = self.ask(Stage::Hello, "HELLO", hello, "WELCOME").await?;
        let welcome = client.open_welcome(&welcome).map_err(|error| match error {
            CurveError::Decrypt { .. } => Outcome::WrongKey,
            CurveError::Length { .. } | CurveError::Encrypt { .. } => fault(Stage::Hello, &error),
        })?;
        let initiate = client.initiate(&welcome).map_err(faulty(Stage::Initiate))?;
        let ready = self.ask(Stage::Initiate, "INITIATE", initiate, "READY").await?;
        client.check_ready(&welcome, &ready).map_err(faulty(Stage::Initiate))
    }

    async fn exchange_greetings(&mut self) -> Result<(), Outcome> {
        let ours = wire::client_greeting();
        let (opening, rest) = ours.split_at(GREETING_OPENING);
        self.send(Stage::Greeting, opening).await?;
        let theirs = loop {
            if !wire::may_be_greeting(&self.received) {
                return Err(not_curve(&self.received));
            }
            if let Some(greeting) = self.received.first_chunk::<GREETING_LENGTH>() {
                break wire::read_greeting(greeting);
            }
            self.receive(Stage::Greeting).await?;
        };
        self.received.drain(..GREETING_LENGTH);
        let (major, minor) = theirs.version;
        if major < 3 || theirs.mechanism != "CURVE" {
            let mechanism = theirs.mechanism.escape_default();
            return Err(Outcome::NotCurve { seen: format!("ZMTP {major}.{minor} {mechanism}") });
        }
        self.send(Stage::Greeting, rest).await
    }

    /// Sends command `name` and returns the body of the answer, which must be `expected`.
    async fn ask(
        &mut self,
        stage: Stage,
        name: &str,
        body: Vec<u8>,
        expected: &str,
    ) -> Result<Vec<u8>, Outcome> {
        self.send(stage, &Command::new(name, body).to_frame()).await?;
        let answer = loop {
            if let Some(command) =
                Command::take(&mut self.received).map_err(|error| fault(stage, &error))?
            {
                break command;
            }
            self.receive(stage).await?;
        };
        if answer.name == expected.as_bytes() {
            Ok(answer.body)
        } else if answer.name == b"ERROR" {
            Err(Outcome::Refused { status: answer.error_reason() })
        } else {
            let error = format!("{:?} came instead of {expected}", answer.name_text());
            Err(Outcome::Protocol { stage, error })
        }
    }

    async fn send(&mut self, stage: Stage, bytes: &[u8]) -> Result<(), Outcome> {
        let sent = timeout_at(self.deadline, self.stream.write_all(bytes)).await;
        sent.map_err(|_| Outcome::TimedOut { stage })?.map_err(|error| gone(stage, &error))
    }

    async fn receive(&mut self, stage: Stage) -> Result<(), Outcome> {
        let read = timeout_at(self.deadline, self.stream.read_buf(&mut self.received)).await;
        match read.map_err(|_| Outcome::TimedOut { stage })? {
            Ok(0) => Err(gone(stage, &ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(error) => Err(gone(stage, &error)),
        }
    }
}

/// The connection is gone. A server that cannot open HELLO has another key than we think, and
/// libzmq says so by closing the connection (RFC 26 forbids to answer).
fn gone(stage: Stage, error: &io::Error) -> Outcome {
    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe]
        .contains(&error.kind());
    match (closed, stage) {
        (true, Stage::Hello) => Outcome::WrongKey,
        (true, _) => {
            Outcome::Protocol { stage, error: "the peer closed the connection".to_owned() }
        }
        (false, _) => Outcome::Protocol { stage, error: format!("the connection failed: {error}") },
    }
}

fn fault(stage: Stage, error: &dyn fmt::Display) -> Outcome {
    Outcome::Protocol { stage, error: error.to_string() }
}

fn not_curve(received: &[u8]) -> Outcome {
    let start = received.get(..24).unwrap_or(received).escape_ascii();
    Outcome::NotCurve { seen: format!("\"{start}\", which is not ZeroMQ") }
}

fn randomness() -> Result<Randomness, Outcome> {
    let mut randomness = Randomness { short_term_secret: [0; 32], vouch_nonce: [0; 16] };
    getrandom::fill(&mut randomness.short_term_secret)
        .and_then(|()| getrandom::fill(&mut randomness.vouch_nonce))
        .map_err(|error| fault(Stage::Hello, &format!("no random bytes: {error}")))?;
    Ok(randomness)
}
