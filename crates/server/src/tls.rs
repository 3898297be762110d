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
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;

/// A certificate in PEM, with those of its issuers, and its key.
pub type Pem = [Vec<u8>; 2];

/// The files of a [`Pem`].
#[derive(Debug, Clone)]
pub struct PemFiles(pub [PathBuf; 2]);

impl PemFiles {
    /// What the files have.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn read(&self) -> Result<Pem, String> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|why| format!("read {}: {why}", path.display()))
        };
        let [chain, key] = &self.0;
        Ok([read(chain)?, read(key)?])
    }
}

/// A certificate, and the server's part of a handshake with it.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// The certificate of the next handshake.
#[derive(Debug)]
struct Certificate(Mutex<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock()))
    }
}

impl Tls {
    /// A server with this certificate.
    ///
    /// # Errors
    ///
    /// If it is no certificate in PEM with its own key. Its names and its time are the clients' to check.
    pub fn new(pem: &Pem) -> Result<Self, String> {
        let certificate = Arc::new(Certificate(Mutex::new(certified(pem)?)));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_protocol_versions(&[&TLS13]).map_err(|why| why.to_string())?;
        let resolver = Arc::<Certificate>::clone(&certificate);
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Takes each certificate that replaces the one with the content `known`. `report` gets why one is not taken.
    pub async fn follow(self, files: PemFiles, known: Pem, report: impl Fn(&str)) {
        let take = |pem: &Pem| {
            *self.certificate.0.lock() = certified(pem)?;
            Ok(())
        };
        files::follow(known, || files.read(), take, report).await;
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
        self.acceptor.accept(stream).await
    }
}

fn certified([chain, key]: &Pem) -> Result<Arc<CertifiedKey>, String> {
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|why| format!("read the certificate: {why}"))?;
    if chain.is_empty() {
        return Err("read the certificate: it is not in PEM".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| format!("read its key: {why}"))?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
    certified.map(Arc::new).map_err(|why| format!("use the certificate with its key: {why}"))
}
