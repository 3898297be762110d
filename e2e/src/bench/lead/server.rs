//! The lead's port: completes the CURVE handshake of whoever has the certificate.

use std::{cell::Cell, net::Ipv4Addr, rc::Rc};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use flux_contract::{CurveCertificate, OVERLAY_PORT};
use omq_proto::{
    CurveKeypair, CurvePublicKey, CurveSecretKey, CurveServerOptions, MechanismSetup, SocketType,
    proto::{Connection, ConnectionConfig, Role},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, spawn_local},
};

/// A lead whose port is open; it closes when this is dropped.
pub(super) struct Lead {
    let_in: Rc<Cell<u64>>,
    serving: JoinHandle<()>,
}

impl Lead {
    /// Opens the port; in a [`tokio::task::LocalSet`].
    pub(super) async fn open(certificate: &CurveCertificate) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, OVERLAY_PORT)).await;
        let listener = listener.context("opening the lead's port")?;
        let keys = CurveKeypair {
            public: CurvePublicKey::from_bytes(certificate.public_key()),
            secret: CurveSecretKey::from_bytes(*certificate.secret_key().expose()),
        };
        let let_in = Rc::new(Cell::new(0));
        let serving = spawn_local(serve(listener, keys, Rc::clone(&let_in)));
        Ok(Self { let_in, serving })
    }

    /// Handshakes that were completed.
    pub(super) fn let_in(&self) -> u64 {
        self.let_in.get()
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, keys: CurveKeypair, let_in: Rc<Cell<u64>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (keys, let_in) = (keys.clone(), Rc::clone(&let_in));
        spawn_local(async move {
            if answer(stream, keys).await {
                let_in.set(let_in.get() + 1);
            }
        });
    }
}

/// Speaks ZMTP until the peer goes away; true if the handshake was completed.
async fn answer(mut stream: TcpStream, keys: CurveKeypair) -> bool {
    let authorised = keys.public.as_bytes().to_owned();
    let options =
        CurveServerOptions::new().authenticator(move |peer| peer.public_key == authorised);
    let mechanism = MechanismSetup::CurveServer { our_keypair: keys, options };
    let configuration = ConnectionConfig::new(Role::Server, SocketType::Router);
    let mut connection = Connection::new(configuration.mechanism(mechanism));
    let mut buffer = [0; 4096];
    loop {
        while connection.has_pending_transmit() {
            let bytes = connection.poll_transmit();
            if stream.write_all(&bytes).await.is_err() {
                return connection.is_ready();
            }
            connection.advance_transmit(bytes.len());
        }
        let length = stream.read(&mut buffer).await.unwrap_or(0);
        let received = Bytes::copy_from_slice(&buffer[..length]);
        if length == 0 || connection.handle_input(received).is_err() {
            return connection.is_ready();
        }
    }
}
