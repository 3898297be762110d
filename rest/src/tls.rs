//! TLS 1.3 with a certificate that may be renewed while the server runs.

use crate::files;
use flux_contract::TLS_SECRET_KEYS;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;

/// What the files have: the chain, and the key of its first certificate.
type Files = [Vec<u8>; 2];

/// A certificate, and the server's part of a handshake with it.
#[derive(Clone)]
pub(crate) struct Tls {
    directory: PathBuf,
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
    /// Reads the certificate in `directory`, and what was read, for [`Self::follow`].
    pub(crate) fn read(directory: PathBuf) -> Result<(Self, Files), String> {
        let provider = Arc::new(ring::default_provider());
        let files = read(&directory)?;
        let certified = certified(&directory, &provider, &files)?;
        let certificate = Arc::new(Certificate(Mutex::new(Arc::new(certified))));
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(&[&TLS13]).map_err(|why| why.to_string())?;
        let resolver = Arc::<Certificate>::clone(&certificate);
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok((Self { directory, acceptor, certificate }, files))
    }

    /// Takes each renewed certificate, from the one in `known` on.
    pub(crate) async fn follow(self, known: Files) {
        let provider = ring::default_provider();
        let take = |files: &Files| {
            let certified = certified(&self.directory, &provider, files)?;
            *self.certificate.0.lock() = Arc::new(certified);
            Ok(())
        };
        files::follow(known, || read(&self.directory), take).await;
    }

    /// The connection after its handshake, if that succeeds.
    pub(crate) async fn accept(self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await.ok()
    }
}

fn read(directory: &Path) -> Result<Files, String> {
    let read = |name| {
        let path = directory.join(name);
        fs::read(&path).map_err(|why| format!("read {}: {why}", path.display()))
    };
    let [chain, key] = TLS_SECRET_KEYS;
    Ok([read(chain)?, read(key)?])
}

/// The certificate in `files`, if it has its own key. Its names and its time are the clients' to check.
fn certified(
    directory: &Path,
    provider: &CryptoProvider,
    [chain, key]: &Files,
) -> Result<CertifiedKey, String> {
    let [of_chain, of_key] = TLS_SECRET_KEYS.map(|name| directory.join(name).display().to_string());
    let wrong = |path: &str, why: String| format!("the certificate of the API in {path}: {why}");
    let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|why| wrong(&of_chain, why.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&of_chain, "it has no certificate in PEM".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| wrong(&of_key, why.to_string()))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|why| wrong(&of_key, why.to_string()))
}
