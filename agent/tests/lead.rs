//! Waiting for the lead over real sockets.

mod support;

use flux_agent::lead::{LeadTarget, wait_for_lead};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use support::{PATIENCE, certificate, curve, listen, serve, start};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

fn target(port: u16) -> LeadTarget {
    let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    LeadTarget { address, name: "lead.invalid".to_owned(), port }
}

#[tokio::test]
async fn a_lead_that_starts_late_is_found_when_it_is_up() {
    let (listener, address) = listen().await;
    drop(listener);
    let (sender, mut reports) = mpsc::unbounded_channel();
    let waiting = async {
        let mut report = |text: &str| sender.send(text.to_owned()).unwrap();
        wait_for_lead(&target(address.port()), &certificate(1), PATIENCE, &mut report).await
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

#[tokio::test]
async fn a_lead_with_another_certificate_is_named_when_the_deadline_passes() {
    let address = start(curve(&certificate(2), &certificate(2))).await;
    let mut reports = Vec::new();
    let mut report = |text: &str| reports.push(text.to_owned());
    // Room for two attempts on a machine with other work.
    let deadline = Duration::from_secs(3);
    let error = wait_for_lead(&target(address.port()), &certificate(1), deadline, &mut report)
        .await
        .unwrap_err();
    assert!(error.attempts > 1);
    assert!(error.last_seen.contains("another CURVE certificate"), "{error}");
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].starts_with("WARNING: "), "{reports:?}");
}
