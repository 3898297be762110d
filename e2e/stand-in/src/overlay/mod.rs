//! The network between brokers: real endpoints, real ZMTP with CURVE, messages of our own.

pub(crate) mod link;
pub(crate) mod wire;

use crate::broker::core::Mailbox;
use crate::config::host_and_port;
use crate::output::strerror;
use bytes::Bytes;
use flux_protocol::CurveCertificate;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use omq_proto::{CurveKeypair, CurvePublicKey, CurveSecretKey};
use std::io::{Error, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Pause between attempts, as in libzmq.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the certificate, whose key pair every broker of an instance has.
pub(crate) fn load_certificate(path: &str) -> Result<CurveKeypair, String> {
    let fault = |error: Error| format!("{path}: {}", strerror(&error));
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
        let (events, alive) = (mailbox.clone(), mailbox.delivery());
        let connection = link::server(&keys);
        tokio::spawn(async move {
            let report = |message| events.report(move |broker| broker.child_says(id, message));
            link::run(stream, connection, &mut outgoing, report).await;
            events.report(move |broker| broker.child_closed(id));
            drop(alive);
        });
    }
}

/// The worker's side: connects to `uri`, and connects again, until `outgoing` is closed. `limit` is that of
/// one attempt.
pub(crate) async fn keep_connected(
    uri: String,
    (keys, ipv6, limit): (CurveKeypair, bool, Duration),
    mut outgoing: UnboundedReceiver<Bytes>,
    mailbox: Mailbox,
) {
    let report = |message| mailbox.report(|broker| broker.parent_says(message));
    while !outgoing.is_closed() {
        let stream = tokio::time::timeout(limit, connect(&uri, ipv6)).await;
        if let Ok(Some(stream)) = stream {
            link::run(stream, link::client(&keys), &mut outgoing, report).await;
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

async fn connect(uri: &str, ipv6: bool) -> Option<TcpStream> {
    let (host, port) = host_and_port(uri)?;
    TcpStream::connect((resolve(host, ipv6).await?, port)).await.ok()
}

/// Binds to `uri`. The host part is `*` or an address, never a DNS name; real Flux takes interfaces as well.
pub(crate) fn bind(uri: &str, ipv6: bool) -> std::io::Result<std::net::TcpListener> {
    let (host, port) = host_and_port(uri).ok_or(ErrorKind::InvalidInput)?;
    let address = match host {
        "*" if ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        _ => host.parse::<IpAddr>().map_err(|_| Error::from_raw_os_error(nix::libc::ENODEV))?,
    };
    let listener = std::net::TcpListener::bind(SocketAddr::new(address, port));
    // As `ZeroMQ` does where the kernel has no IPv6 (`tcp_open_socket`).
    let without_ipv6 = Some(nix::libc::EAFNOSUPPORT);
    if host == "*" && listener.as_ref().is_err_and(|error| error.raw_os_error() == without_ipv6) {
        return std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    }
    listener
}

/// The address `ZeroMQ` would connect to (`ip_resolver_t::resolve_getaddrinfo`): without `enable_ipv6` one
/// of IPv4, with it one of IPv6 where there is any. The static binary has no resolver of the C library.
async fn resolve(host: &str, ipv6: bool) -> Option<IpAddr> {
    // hickory asks DNS for an address, too, where names with five dots are searched for, as in Kubernetes.
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(address).filter(|it| ipv6 || it.is_ipv4());
    }
    let mut builder = TokioResolver::builder_tokio().ok()?;
    let (six, four) = (LookupIpStrategy::Ipv6thenIpv4, LookupIpStrategy::Ipv4Only);
    builder.options_mut().ip_strategy = if ipv6 { six } else { four };
    builder.build().ok()?.lookup_ip(host).await.ok()?.iter().next()
}
