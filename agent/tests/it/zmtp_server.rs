//! `ZeroMQ` servers on loopback.

use crate::pod;
use crate::prelude::*;
use bytes::Bytes;
use flux_protocol::CurveCertificate;
use omq_proto::proto::{Connection, ConnectionConfig, Role};
use omq_proto::{CurveKeypair, CurveSecretKey, CurveServerOptions, MechanismSetup, SocketType};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

pub(crate) fn certificate(seed: u8) -> CurveCertificate {
    CurveCertificate::new("hello-0", [seed; 32]).unwrap()
}

fn key_pair(certificate: &CurveCertificate) -> CurveKeypair {
    let secret = CurveSecretKey::from_bytes(*certificate.secret_key().expose());
    CurveKeypair { public: secret.derive_public(), secret }
}

/// A server with the key pair of `own` that lets in clients whose public key is that of `allowed`.
pub(crate) fn curve(own: &CurveCertificate, allowed: &CurveCertificate) -> MechanismSetup {
    let allowed = allowed.public_key();
    MechanismSetup::CurveServer {
        our_keypair: key_pair(own),
        options: CurveServerOptions::new().authenticator(move |peer| peer.public_key == allowed),
    }
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Answers connections on `listener` as a ROUTER with `mechanism` does, until dropped.
pub(crate) async fn serve(listener: TcpListener, mechanism: MechanismSetup) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream, mechanism.clone()));
    }
}

/// Serves on a port of its own in the background.
pub(crate) async fn start(mechanism: MechanismSetup) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(serve(listener, mechanism));
    address
}

/// A worker's pod, its configuration, and the runtime of its lead, which accepts the worker until the runtime is dropped.
pub(crate) fn worker_with_lead() -> (Pod, AgentConfig, Runtime) {
    let (lead, certificate) = (Runtime::new().unwrap(), pod::certificate());
    let address = lead.block_on(start(curve(&certificate, &certificate)));
    let (pod, config) = Pod::worker(address.port());
    (pod, config, lead)
}

/// Speaks ZMTP until the peer goes away or makes a mistake, then closes.
async fn answer(mut stream: TcpStream, mechanism: MechanismSetup) {
    let configuration = ConnectionConfig::new(Role::Server, SocketType::Router);
    let mut connection = Connection::new(configuration.mechanism(mechanism));
    let mut buffer = [0; 4096];
    let mut fine = true;
    loop {
        // After a mistake, an ERROR command.
        while connection.has_pending_transmit() {
            let bytes = connection.poll_transmit();
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            connection.advance_transmit(bytes.len());
        }
        let length = if fine { stream.read(&mut buffer).await.unwrap_or(0) } else { 0 };
        if length == 0 {
            return;
        }
        fine = connection.handle_input(Bytes::copy_from_slice(&buffer[..length])).is_ok();
    }
}
