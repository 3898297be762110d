//! The API over TLS: its certificate, a renewed one, a broken one, and clients that do not speak TLS.

use crate::broker::broker_that;
use crate::server::{self, Answer, Background, PATIENCE, Place, TOKEN, answer_on, bearer, served};
use flux_contract::ServedInstance;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::fs;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A server with a certificate, and the client's copy of that.
struct Encrypted {
    place: Place,
    process: Background,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
}

impl Encrypted {
    fn start() -> Self {
        let place = Place::new();
        broker_that(place.at("broker"), |_, _| Err::<String, _>(38));
        let certificate = renew(&place);
        let (process, address) =
            served(&ServedInstance { tls: Some(place.at("")), ..place.instance() });
        Self { place, process, address, certificate }
    }

    /// The answer to a client that trusts `certificate` alone.
    fn get(&self, path: &str, certificate: &CertificateDer<'static>) -> io::Result<Answer> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let client = ClientConnection::new(Arc::new(config), "hello".try_into().unwrap());
        let stream = StreamOwned::new(client.unwrap(), server::begin(self.address, "")?);
        answer_on(stream, &format!("GET {path} HTTP/1.1"), &bearer(TOKEN), "")
    }

    fn serves_with(&self, certificate: &CertificateDer<'static>) -> bool {
        self.get("/health", certificate).is_ok_and(|answer| answer.status == 200)
    }
}

/// Writes a new certificate, and returns it.
fn renew(place: &Place) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["hello".to_owned()]).unwrap();
    fs::write(place.at("tls.crt"), cert.pem()).unwrap();
    fs::write(place.at("tls.key"), signing_key.serialize_pem()).unwrap();
    cert.der().clone()
}

#[test]
fn a_renewed_certificate_is_taken_and_a_broken_one_is_not() {
    let mut encrypted = Encrypted::start();
    let about = encrypted.get("/api/v1/openapi.json", &encrypted.certificate).unwrap();
    assert_eq!((about.status, &about.json()["openapi"]), (200, &"3.1.0".into()));
    let renewed = renew(&encrypted.place);
    let began = Instant::now();
    while !encrypted.serves_with(&renewed) {
        assert!(began.elapsed() < PATIENCE, "the old certificate is still in use");
        park_timeout(Duration::from_millis(50));
    }
    assert!(!encrypted.serves_with(&encrypted.certificate));
    fs::write(encrypted.place.at("tls.crt"), "nothing").unwrap();
    encrypted.process.logs("read the certificate: it is not in PEM; what was read before stays");
    assert!(encrypted.serves_with(&renewed));
    // The key of another certificate.
    let other = generate_simple_self_signed(["hello".to_owned()]).unwrap();
    fs::write(encrypted.place.at("tls.crt"), other.cert.pem()).unwrap();
    encrypted.process.logs("use the certificate with its key: ");
    assert!(encrypted.serves_with(&renewed));
}

#[test]
fn clients_without_a_handshake_get_nothing_and_keep_no_other_out() {
    let encrypted = Encrypted::start();
    let open = |text: &str| server::begin(encrypted.address, text).unwrap();
    let mut answer = Vec::new();
    // The server may reset such a connection.
    let _ = open("GET /health HTTP/1.0\r\n\r\n").read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // The beginning of a handshake of 512 bytes.
    let silent: Vec<_> = (0..100).flat_map(|_| ["", "\x16\x03\x01\x02\0"].map(open)).collect();
    let began = Instant::now();
    for _ in 0..10 {
        assert!(encrypted.serves_with(&encrypted.certificate));
    }
    // Nobody's time had to run out first.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop(silent);
}
