//! The CURVE client handshake against servers of all kinds, and the wait for one that comes late.

use crate::pod::PATIENCE;
use crate::zmtp_server::{certificate, curve, listen, serve, start};
use flux_agent::lead::{Outcome, Stage, probe, wait_for_lead};
use flux_agent::plan::AwaitLead;
use flux_contract::CurveCertificate;
use omq_proto::MechanismSetup;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

async fn ask(address: SocketAddr, certificate: &CurveCertificate) -> Outcome {
    probe(address, certificate, PATIENCE, PATIENCE).await
}

#[tokio::test]
async fn a_server_accepts_its_own_certificate_and_every_other_outcome_has_its_name() {
    let (ours, other) = (certificate(1), certificate(2));
    for (server, expected) in [
        (curve(&ours, &ours), Outcome::Accepted),
        (curve(&ours, &other), Outcome::Refused("400".to_owned())),
        (curve(&other, &other), Outcome::WrongKey),
        (MechanismSetup::Null, Outcome::NotCurve("ZMTP 3.1 NULL".to_owned())),
    ] {
        let address = start(server).await;
        for _ in 0..2 {
            assert_eq!(ask(address, &ours).await, expected);
        }
        let of_certificate = matches!(expected, Outcome::Refused(_) | Outcome::WrongKey);
        assert_eq!(expected.is_certificate_problem(), of_certificate);
    }
}

#[tokio::test]
async fn another_protocol_is_shown_by_its_first_bytes() {
    let (listener, address) = listen().await;
    let web_server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = stream.read(&mut [0; 64]).await;
    };
    let certificate = certificate(1);
    let (outcome, ()) = tokio::join!(ask(address, &certificate), web_server);
    let Outcome::NotCurve(seen) = outcome else { panic!("{outcome:?}") };
    assert!(seen.contains("HTTP/1.1 400"), "{seen}");
}

#[tokio::test]
async fn a_silent_listener_times_out_while_its_greeting_is_awaited() {
    let (_listener, address) = listen().await;
    let outcome = probe(address, &certificate(1), PATIENCE, Duration::from_millis(100)).await;
    assert_eq!(outcome, Outcome::TimedOut(Stage::Greeting));
}

#[tokio::test]
async fn a_peer_that_closes_before_its_greeting_is_no_wrong_key() {
    let (listener, address) = listen().await;
    let closer = async { drop(listener.accept().await.unwrap()) };
    let certificate = certificate(1);
    let (outcome, ()) = tokio::join!(ask(address, &certificate), closer);
    assert!(matches!(outcome, Outcome::Protocol(Stage::Greeting, _)), "{outcome:?}: {outcome}");
}

#[tokio::test]
async fn an_address_without_a_route_is_unreachable() {
    // Class E addresses are refused by the kernel itself.
    let outcome = ask("255.255.255.255:8050".parse().unwrap(), &certificate(1)).await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_lead_that_starts_late_is_found_when_it_is_up() {
    let (listener, address) = listen().await;
    drop(listener);
    let target = AwaitLead {
        address: Some(address.ip()),
        name: "lead.invalid".to_owned(),
        port: address.port(),
        hosts: 2,
        deadline_seconds: 0,
    };
    let (sender, mut reports) = mpsc::unbounded_channel();
    let waiting = async {
        let mut report = |text: &str| sender.send(text.to_owned()).unwrap();
        wait_for_lead(&target, &certificate(1), PATIENCE, &mut report).await
    };
    let starting = async {
        let seen = reports.recv().await.unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(serve(listener, curve(&certificate(1), &certificate(1))));
        seen
    };
    let (found, seen) = tokio::join!(waiting, starting);
    assert!(seen.contains("connection refused"), "{seen}");
    let found = found.unwrap();
    assert_eq!(found.address, address);
    assert!(found.attempts > 1);
}
