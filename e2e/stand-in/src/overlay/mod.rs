//! The network between brokers: real endpoints, real ZMTP with CURVE, messages of our own.

pub(crate) mod endpoint;
pub(crate) mod link;
pub(crate) mod wire;

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bytes::Bytes;
use flux_contract::CurveCertificate;
use omq_proto::{CurveKeypair, CurvePublicKey, CurveSecretKey};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::broker::core::{Broker, Mailbox};
use crate::broker::log::Severity;
use crate::failure::strerror;

/// Pause between attempts, as in libzmq.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the certificate, whose key pair every broker of an instance has.
pub(crate) fn load_certificate(path: &str) -> Result<CurveKeypair, String> {
    let fault = |error: std::io::Error| format!("{path}: {}", strerror(&error));
    let mut file = std::fs::File::open(path).map_err(fault)?;
    if file.metadata().map_err(fault)?.permissions().mode() & 0o044 != 0 {
        return Err(format!("{path}: readable by group/other"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(fault)?;
    let certificate = CurveCertificate::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(CurveKeypair {
        public: CurvePublicKey::from_bytes(certificate.public_key()),
        secret: CurveSecretKey::from_bytes(*certificate.secret_key().expose()),
    })
}

/// The lead's side: accepts for as long as the broker lives, and numbers the links.
pub(crate) async fn accept(listener: TcpListener, keys: CurveKeypair, mailbox: Mailbox) {
    let mut number = 0_u64;
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        number += 1;
        let (id, (sender, mut outgoing)) = (number, unbounded_channel());
        mailbox.report(move |broker| broker.child_connected(id, sender));
        let (refused, events, alive) = (mailbox.clone(), mailbox.clone(), mailbox.delivery());
        let refused = move || refused.report(|broker| broker.child_refused());
        let connection = link::server(&keys, refused);
        tokio::spawn(async move {
            let report = |event| events.report(move |broker| broker.child_event(id, event));
            link::run(stream, connection, &mut outgoing, report).await;
            drop(alive);
        });
    }
}

/// The worker's side.
pub(crate) struct Uplink {
    /// The parent's `connect` URI.
    pub(crate) uri: String,
    pub(crate) keys: CurveKeypair,
    pub(crate) ipv6: bool,
    /// Limit of one TCP connection attempt.
    pub(crate) connect_timeout: Duration,
}

impl Uplink {
    /// Connects, and connects again, until `outgoing` is closed. A name that does not resolve is
    /// reported once, and tried again.
    pub(crate) async fn keep(self, mut outgoing: UnboundedReceiver<Bytes>, mailbox: Mailbox) {
        let report = |event| mailbox.report(|broker| broker.parent_event(event));
        let mut reported = false;
        while !outgoing.is_closed() {
            match self.attempt().await {
                Ok(Some(stream)) => {
                    link::run(stream, link::client(&self.keys), &mut outgoing, report).await;
                }
                Err(reason) if !reported => {
                    reported = true;
                    let text = format!("unable to resolve upstream peer {reason}");
                    let log = move |broker: &mut Broker| {
                        broker.log_as("overlay", Severity::Warning, &text);
                    };
                    mailbox.report(log);
                }
                Ok(None) | Err(_) => {}
            }
            tokio::time::sleep(RECONNECT_INTERVAL).await;
        }
    }

    /// The error is a name without an address, and why.
    async fn attempt(&self) -> Result<Option<TcpStream>, String> {
        let Some((host, port)) = endpoint::host_and_port(&self.uri) else { return Ok(None) };
        let address = endpoint::resolve(host, self.ipv6).await?;
        let connecting = TcpStream::connect(SocketAddr::new(address, port));
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        Ok(connected.ok().and_then(Result::ok))
    }
}
