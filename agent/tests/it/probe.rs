//! The CURVE client handshake against servers of all kinds.

use crate::prelude::*;
use crate::zmtp_server::{certificate, curve, listen, start};
use flux_agent::lead::{Outcome, Stage, probe};
use flux_protocol::CurveCertificate;
use omq_proto::MechanismSetup;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn ask(address: SocketAddr, certificate: &CurveCertificate) -> Outcome {
    probe(address, certificate, PATIENCE, PATIENCE).await
}

#[tokio::test]
async fn each_outcome_of_a_handshake_has_its_name() {
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
    }
}

#[tokio::test]
async fn another_protocol_is_shown_by_its_first_bytes() {
    for greeting in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
        let (listener, address) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(greeting.as_bytes()).await.unwrap();
            if !greeting.is_empty() {
                let _ = stream.read(&mut [0; 64]).await;
            }
        };
        let certificate = certificate(1);
        let (outcome, ()) = tokio::join!(ask(address, &certificate), server);
        let is_named = if greeting.is_empty() {
            matches!(&outcome, Outcome::Protocol(Stage::Greeting, _))
        } else {
            matches!(&outcome, Outcome::NotCurve(seen) if seen.contains("HTTP/1.1 400"))
        };
        assert!(is_named, "{outcome:?}: {outcome}");
    }
}

#[tokio::test]
async fn a_silent_listener_times_out_while_its_greeting_is_awaited() {
    let (_listener, address) = listen().await;
    let outcome = probe(address, &certificate(1), PATIENCE, Duration::from_millis(100)).await;
    assert_eq!(outcome, Outcome::TimedOut(Stage::Greeting));
}

#[tokio::test]
async fn an_address_without_a_route_is_unreachable() {
    // Class E addresses are refused by the kernel itself.
    let outcome = ask("255.255.255.255:8050".parse().unwrap(), &certificate(1)).await;
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome:?}");
}
