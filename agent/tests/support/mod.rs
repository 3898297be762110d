//! `ZeroMQ` servers on loopback, made with an independent implementation of ZMTP and CURVE.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "every test binary uses its own part of this")]

use bytes::Bytes;
use flux_contract::CurveCertificate;
use omq_proto::proto::{Connection, ConnectionConfig, Role};
use omq_proto::{
    CurveKeypair, CurvePublicKey, CurveSecretKey, CurveServerOptions, MechanismSetup, SocketType,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Long enough for a busy machine; no test waits this long unless it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn certificate(seed: u8) -> CurveCertificate {
    CurveCertificate::new("hello-0", [seed; 32]).unwrap()
}

/// The key pair that the certificate's own text holds, read by the other implementation.
fn key_pair(certificate: &CurveCertificate) -> CurveKeypair {
    let text = certificate.to_text();
    let value = |key: &str| {
        let line = text.expose().lines().find(|line| line.trim().starts_with(key)).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let public = CurvePublicKey::from_z85(&value("public-key")).unwrap();
    let secret = CurveSecretKey::from_z85(&value("secret-key")).unwrap();
    assert_eq!(secret.derive_public().as_bytes(), public.as_bytes());
    CurveKeypair { public, secret }
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

/// A lead that lets in whoever has `certificate`, for as long as the runtime lives; its port.
pub(crate) fn lead(certificate: &CurveCertificate) -> (Runtime, u16) {
    let runtime = Runtime::new().unwrap();
    let port = runtime.block_on(start(curve(certificate, certificate))).port();
    (runtime, port)
}

/// Speaks ZMTP until the peer goes away or makes a mistake, then closes.
async fn answer(mut stream: TcpStream, mechanism: MechanismSetup) {
    let configuration = ConnectionConfig::new(Role::Server, SocketType::Router);
    let mut connection = Connection::new(configuration.mechanism(mechanism));
    let mut buffer = [0; 4096];
    loop {
        while connection.has_pending_transmit() {
            let bytes = connection.poll_transmit();
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
            connection.advance_transmit(bytes.len());
        }
        let length = stream.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            return;
        }
        let fine = connection.handle_input(Bytes::copy_from_slice(&buffer[..length])).is_ok();
        if !fine {
            // An ERROR command may still wait to be sent.
            while connection.has_pending_transmit() {
                let bytes = connection.poll_transmit();
                let _ = stream.write_all(&bytes).await;
                connection.advance_transmit(bytes.len());
            }
            return;
        }
    }
}
