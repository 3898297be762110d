//! TLS 1.3 with a certificate that may be renewed while the server runs.

use crate::files;
use parking_lot::Mutex;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;

/// A certificate in PEM, with those of its issuers, and its key.
pub type Pem = [Vec<u8>; 2];

/// The files of a [`Pem`].
pub type PemFiles = [PathBuf; 2];

/// The server's part of the next handshake, with the certificate that is in use.
#[derive(Clone)]
pub struct Tls(Arc<Mutex<TlsAcceptor>>);

impl Tls {
    /// A server with this certificate.
    ///
    /// # Errors
    ///
    /// If it is no certificate in PEM with its own key. Its names and its time are the clients' to check.
    pub fn new(pem: &Pem) -> Result<Self, String> {
        Ok(Self(Arc::new(Mutex::new(acceptor(pem)?))))
    }

    /// The same with the certificate in `files`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, too.
    pub fn open(files: &PemFiles) -> Result<Self, String> {
        Self::new(&read(files)?)
    }

    /// Takes each certificate that replaces the one in `files`. `report` gets why one is not taken.
    pub async fn follow(self, files: PemFiles, report: impl Fn(&str)) {
        let take = |pem: &Pem| acceptor(pem).map(|new| *self.0.lock() = new);
        files::follow(|| read(&files), take, report).await;
    }

    /// The connection after its handshake.
    ///
    /// # Errors
    ///
    /// If the client does not speak TLS 1.3, or does not trust the certificate.
    pub async fn accept<Stream>(self, stream: Stream) -> io::Result<TlsStream<Stream>>
    where
        Stream: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = self.0.lock().clone();
        acceptor.accept(stream).await
    }
}

fn read([chain, key]: &PemFiles) -> Result<Pem, String> {
    let read =
        |path: &PathBuf| fs::read(path).map_err(|why| format!("read {}: {why}", path.display()));
    Ok([read(chain)?, read(key)?])
}

fn acceptor([chain, key]: &Pem) -> Result<TlsAcceptor, String> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|why| format!("read the certificate: {why}"))?;
    if chain.is_empty() {
        return Err("read the certificate: it is not in PEM".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| format!("read its key: {why}"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_protocol_versions(&[&TLS13]).map_err(|why| why.to_string())?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|why| format!("use the certificate with its key: {why}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
