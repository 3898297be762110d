//! One connection: bytes of a stream on one side, whole messages on the other, CURVE in between.

use bytes::Bytes;
use nix::sys::socket::{setsockopt, sockopt};
use omq_proto::proto::{Connection, ConnectionConfig, Event, Role};
use omq_proto::{
    CurveKeypair, CurvePublicKey, CurveServerOptions, MechanismSetup, Message, SocketType,
};
use std::io::Error;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

/// ZeroMQ's limit for a handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

const LARGEST_MESSAGE: usize = 64 << 20;

/// The child's end: it presents the certificate and expects the same one.
pub(crate) fn client(keys: &CurveKeypair) -> Connection {
    let mechanism =
        MechanismSetup::CurveClient { our_keypair: keys.clone(), server_public: keys.public };
    connection(Role::Client, SocketType::Dealer, mechanism)
}

/// The parent's end: it lets in exactly one client key.
pub(crate) fn server(keys: &CurveKeypair) -> Connection {
    let own = keys.public.to_z85();
    let options = CurveServerOptions::new()
        .authenticator(move |peer| CurvePublicKey::from_bytes(peer.public_key).to_z85() == own);
    let mechanism = MechanismSetup::CurveServer { our_keypair: keys.clone(), options };
    connection(Role::Server, SocketType::Router, mechanism)
}

fn connection(role: Role, socket: SocketType, mechanism: MechanismSetup) -> Connection {
    let config = ConnectionConfig::new(role, socket);
    Connection::new(config.max_message_size(LARGEST_MESSAGE).mechanism(mechanism))
}

/// Runs a link until either side ends it; messages are reported, and none when the handshake is done. Until then,
/// messages wait in `outgoing`, and what is there in the end stays.
pub(crate) async fn run(
    mut stream: TcpStream,
    mut connection: Connection,
    outgoing: &mut UnboundedReceiver<Bytes>,
    report: impl Fn(Option<Bytes>),
) {
    // The link works without this option, too.
    let _ = limit_silence(&stream);
    // The error does not matter here: an ERROR command of the peer may have the reason.
    let _ = exchange(&mut stream, &mut connection, outgoing, &report).await;
    drop(flush(&mut stream, &mut connection).await);
    drop(stream.shutdown().await);
}

async fn exchange(
    stream: &mut TcpStream,
    connection: &mut Connection,
    outgoing: &mut UnboundedReceiver<Bytes>,
    report: &impl Fn(Option<Bytes>),
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let deadline = tokio::time::Instant::now() + HANDSHAKE_LIMIT;
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        flush(stream, connection).await?;
        report_all(connection, report);
        let ready = connection.is_ready();
        tokio::select! {
            count = stream.read(&mut buffer) => {
                let input = Bytes::copy_from_slice(&buffer[..count?]);
                if input.is_empty() {
                    return Ok(());
                }
                connection.handle_input(input).map_err(Error::other)?;
            }
            message = outgoing.recv(), if ready => {
                let Some(bytes) = message else { return Ok(()) };
                connection.send_message(&Message::single(bytes)).map_err(Error::other)?;
            }
            () = tokio::time::sleep_until(deadline), if !ready => return Ok(()),
        }
    }
}

/// Real brokers send a heartbeat every 2 s, and give up a peer that has acknowledged nothing for 20 s
/// (`tbon.tcp_user_timeout`). Here the kernel does both.
fn limit_silence(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &2)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &2)?;
    setsockopt(stream, sockopt::TcpUserTimeout, &20_000)
}

async fn flush(stream: &mut TcpStream, connection: &mut Connection) -> std::io::Result<()> {
    loop {
        let bytes = connection.poll_transmit();
        if bytes.is_empty() {
            return Ok(());
        }
        stream.write_all(&bytes).await?;
        connection.advance_transmit(bytes.len());
    }
}

fn report_all(connection: &mut Connection, report: &impl Fn(Option<Bytes>)) {
    while let Some(event) = connection.poll_event() {
        if let Event::HandshakeSucceeded { .. } = event {
            report(None);
        }
    }
    while let Some(message) = connection.poll_message() {
        if let Some(bytes) = message.part_bytes(0) {
            report(Some(bytes));
        }
    }
}
