//! The certificate of the metrics: made at start, or from a directory and read again when it changes.

use parking_lot::Mutex;
use rcgen::generate_simple_self_signed;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig, version::TLS13};

/// Files of a Secret of type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// Wait before the files are read again. Nobody reads them while nobody connects.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Why there is no certificate.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("read {path}, which --metrics-cert-path names", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("read {0} as PEM")]
    Pem(&'static str, #[source] pem::Error),
    #[error("use {CERTIFICATE} with {KEY}")]
    Unusable(#[source] rustls::Error),
    #[error("make a self-signed certificate")]
    Make(#[from] rcgen::Error),
}

/// A certificate, with those of its issuers, and its key.
#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pem {
    fn self_signed() -> Result<Self, CertificateError> {
        let made = generate_simple_self_signed(["localhost".to_owned()])?;
        let (certificate, key) = (made.cert.pem().into(), made.signing_key.serialize_pem().into());
        Ok(Self { certificate, key })
    }

    fn read(directory: &Path) -> Result<Self, CertificateError> {
        let read = |name| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|error| CertificateError::Read(path, error))
        };
        Ok(Self { certificate: read(CERTIFICATE)?, key: read(KEY)? })
    }

    fn config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| CertificateError::Pem(CERTIFICATE, error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| CertificateError::Pem(KEY, error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(CertificateError::Unusable)?.with_no_client_auth();
        let mut config =
            builder.with_single_cert(chain, key).map_err(CertificateError::Unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The certificate that clients get.
pub(crate) struct Certificate {
    /// Where it is from; made at start if `None`.
    directory: Option<PathBuf>,
    current: Mutex<Current>,
}

struct Current {
    pem: Pem,
    config: Arc<ServerConfig>,
    checked: Instant,
    /// Why the files were not used at the last check.
    failure: Option<String>,
}

impl Certificate {
    /// The certificate in `directory`, or one that is made now.
    pub(crate) fn new(directory: Option<PathBuf>, now: Instant) -> Result<Self, CertificateError> {
        let pem = directory.as_deref().map_or_else(Pem::self_signed, Pem::read)?;
        let config = pem.config()?;
        let current = Mutex::new(Current { pem, config, checked: now, failure: None });
        Ok(Self { directory, current })
    }

    /// What a connection at `now` uses. Files that cannot be used leave the certificate as it was.
    pub(crate) fn config(&self, now: Instant) -> Arc<ServerConfig> {
        let mut current = self.current.lock();
        if let Some(directory) = &self.directory
            && now.saturating_duration_since(current.checked) >= CHECK_INTERVAL
        {
            current.checked = now;
            current.check(directory);
        }
        Arc::clone(&current.config)
    }
}

impl Current {
    fn check(&mut self, directory: &Path) {
        let failure = match self.read_again(directory) {
            Ok(()) => None,
            Err(error) => Some(format!("{:#}", anyhow::Error::from(error))),
        };
        if self.failure != failure {
            if let Some(failure) = &failure {
                tracing::error!("the metrics keep their earlier certificate: {failure}");
            }
            self.failure = failure;
        }
    }

    fn read_again(&mut self, directory: &Path) -> Result<(), CertificateError> {
        let pem = Pem::read(directory)?;
        if pem != self.pem {
            self.config = pem.config()?;
            self.pem = pem;
            tracing::info!("the metrics have another certificate");
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tokio::io::{AsyncRead, AsyncWrite, duplex};
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// A client's connection that trusts the certificate in `directory` alone.
    pub(crate) async fn connect<Stream>(
        stream: Stream,
        directory: &Path,
    ) -> io::Result<TlsStream<Stream>>
    where
        Stream: AsyncRead + AsyncWrite + Unpin,
    {
        let Pem { certificate, .. } = Pem::read(directory).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&certificate).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect("localhost".try_into().unwrap(), stream).await
    }

    /// A directory with a new certificate.
    pub(crate) fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &Pem::self_signed().unwrap());
        directory
    }

    fn write(directory: &Path, pem: &Pem) {
        std::fs::write(directory.join(CERTIFICATE), &pem.certificate).unwrap();
        std::fs::write(directory.join(KEY), &pem.key).unwrap();
    }

    /// Whether a client that trusts the certificate in `directory` alone connects to a server with `config`.
    async fn connects(config: Arc<ServerConfig>, directory: &Path) -> bool {
        let (of_client, of_server) = duplex(1 << 14);
        let accept = TlsAcceptor::from(config).accept(of_server);
        let (connected, accepted) = tokio::join!(connect(of_client, directory), accept);
        assert_eq!(connected.is_ok(), accepted.is_ok(), "{connected:?}");
        connected.is_ok()
    }

    #[tokio::test]
    async fn a_changed_certificate_is_used_and_a_broken_one_is_not() {
        let (used, first, second) = (directory(), directory(), directory());
        let copy = |from: &Path, name| std::fs::copy(from.join(name), used.path().join(name));
        let (first, second) = (first.path(), second.path());
        for name in [CERTIFICATE, KEY] {
            copy(first, name).unwrap();
        }
        let begin = Instant::now();
        let certificate = Certificate::new(Some(used.path().to_owned()), begin).unwrap();
        let at = |seconds| certificate.config(begin + Duration::from_secs(seconds));
        let failure = || certificate.current.lock().failure.clone();
        assert!(connects(at(0), first).await && !connects(at(0), second).await);
        assert!(Arc::ptr_eq(&at(0), &at(11)), "nothing has changed");
        copy(second, CERTIFICATE).unwrap();
        assert!(connects(at(22), first).await, "the key is not that of the certificate");
        assert!(failure().unwrap().starts_with("use tls.crt with tls.key: "), "{:?}", failure());
        copy(second, KEY).unwrap();
        assert!(connects(at(31), first).await, "it is too early to read them again");
        assert!(connects(at(32), second).await && !connects(at(32), first).await);
        assert_eq!(failure(), None);
    }

    #[tokio::test]
    async fn a_certificate_is_made_where_none_is_given() {
        let made = Certificate::new(None, Instant::now()).unwrap();
        let directory = directory();
        assert!(!connects(made.config(Instant::now()), directory.path()).await);
        write(directory.path(), &made.current.lock().pem);
        assert!(connects(made.config(Instant::now()), directory.path()).await);
    }

    #[test]
    fn a_directory_without_a_usable_certificate_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let failure = || {
            let made = Certificate::new(Some(directory.path().to_owned()), Instant::now());
            format!("{:#}", anyhow::Error::from(made.err().unwrap()))
        };
        let missing = failure();
        assert!(missing.contains("/tls.crt, which --metrics-cert-path names: No such file"));
        let Pem { certificate, .. } = Pem::self_signed().unwrap();
        write(directory.path(), &Pem { certificate, key: b"none".to_vec() });
        assert!(failure().starts_with("read tls.key as PEM: "), "{}", failure());
    }
}
