//! The certificate of the metrics: made at start, or from a directory and read again when it changes.

use anyhow::{Context as _, Result, anyhow};
use flux_contract::TLS_SECRET_KEYS;
use flux_server::tls::{Pem, PemFiles, Tls};
use rcgen::generate_simple_self_signed;
use std::path::PathBuf;

/// A certificate, and the files that it is from.
pub(crate) struct Certificate {
    pub(super) tls: Tls,
    files: Option<PemFiles>,
}

impl Certificate {
    /// The certificate in `directory`, or one that is made now.
    pub(crate) fn new(directory: Option<PathBuf>) -> Result<Self> {
        let Some(directory) = directory else {
            let tls = Tls::new(&self_signed()?).map_err(|why| anyhow!(why))?;
            return Ok(Self { tls, files: None });
        };
        let files = TLS_SECRET_KEYS.map(|name| directory.join(name));
        let used = || format!("use --metrics-cert-path {}", directory.display());
        let tls = Tls::open(&files).map_err(|why| anyhow!(why)).with_context(used)?;
        Ok(Self { tls, files: Some(files) })
    }

    /// Takes each certificate that replaces the one in its files, until the future is dropped.
    pub(super) async fn follow(self) {
        let Some(files) = self.files else { return std::future::pending().await };
        let log = |why: &str| tracing::error!("the certificate of the metrics: {why}");
        self.tls.follow(files, log).await;
    }
}

fn self_signed() -> Result<Pem> {
    let made = generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.context("make a self-signed certificate for the metrics")?;
    Ok([made.cert.pem().into(), made.signing_key.serialize_pem().into()])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    /// A client's connection that trusts the certificate in `directory` alone.
    pub(crate) async fn connect(
        stream: TcpStream,
        directory: &Path,
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let certificate = std::fs::read(directory.join("tls.crt")).unwrap();
        roots.add(CertificateDer::from_pem_slice(&certificate).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect("localhost".try_into().unwrap(), stream).await
    }

    /// A directory with a new certificate.
    pub(crate) fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in TLS_SECRET_KEYS.into_iter().zip(self_signed().unwrap()) {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    #[test]
    fn a_directory_without_a_usable_certificate_is_named() {
        let directory = directory();
        let [certificate, key] = TLS_SECRET_KEYS.map(|name| directory.path().join(name));
        let failure = || {
            let made = Certificate::new(Some(directory.path().to_owned()));
            format!("{:#}", made.err().unwrap())
        };
        std::fs::write(&key, "none").unwrap();
        assert!(failure().contains(": read its key: "), "{}", failure());
        std::fs::write(&key, &self_signed().unwrap()[1]).unwrap();
        assert!(failure().contains(": use the certificate with its key: "), "{}", failure());
        std::fs::remove_file(certificate).unwrap();
        assert!(failure().contains("/tls.crt: No such file"), "{}", failure());
    }
}
