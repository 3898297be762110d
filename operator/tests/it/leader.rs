//! Leader election: several candidates for one Lease, and faults of the API server, in paused time.

use crate::prelude::*;
use flux_operator::leader::{Candidate, DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use flux_operator::run::while_held;
use std::future::pending;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

const NOT_RENEWED: &str = "the Lease could not be renewed for 10 s";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/work/leases/flux-operator";

fn candidate(server: &Server, identity: &str) -> Candidate {
    Candidate::new(server.client(), "work", "flux-operator", identity.to_owned())
}

async fn holding() -> (Server, Candidate) {
    let server = role::server();
    let mut one = candidate(&server, "one");
    one.gain(|| {}).await;
    (server, one)
}

fn held_by(holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "flux-operator", "namespace": "work" },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
    })
}

fn holder(server: &Server) -> String {
    let lease = server.get(LEASE).unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_at_once_and_kept() {
    let server = role::server();
    let mut one = candidate(&server, "one");
    let begin = Instant::now();
    one.gain(|| {}).await;
    assert!(begin.elapsed() < RETRY_PERIOD);
    let renewed = server.get(LEASE).unwrap()["metadata"]["resourceVersion"].clone();
    assert!(timeout(10 * DURATION, one.keep()).await.is_err());
    assert_eq!(holder(&server), "one");
    assert_ne!(server.get(LEASE).unwrap()["metadata"]["resourceVersion"], renewed);
}

#[tokio::test(start_paused = true)]
async fn a_stand_by_takes_over_when_the_holder_releases() {
    let server = role::server();
    let (mut one, mut two) = (candidate(&server, "one"), candidate(&server, "two"));
    one.gain(|| {}).await;
    let both = timeout(10 * DURATION, async {
        tokio::select! {
            lost = one.keep() => panic!("{lost}"),
            () = two.gain(|| {}) => panic!("two holders"),
        }
    });
    assert!(both.await.is_err());
    one.release().await;
    assert_eq!(holder(&server), "");
    let begin = Instant::now();
    two.gain(|| {}).await;
    assert!(begin.elapsed() <= RETRY_PERIOD, "{:?}", begin.elapsed());
    assert_eq!(server.get(LEASE).unwrap()["spec"]["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_in_time() {
    for outage in [Failure::Swallowed, Failure::Refused(500), Failure::Refused(403)] {
        let server = role::server();
        let way = server.another_connection();
        let (mut one, mut two) = (candidate(&way, "one"), candidate(&server, "two"));
        one.gain(|| {}).await;
        let taken = tokio::spawn(async move {
            two.gain(|| {}).await;
            Instant::now()
        });
        // The stand-by has seen the last renewal.
        assert!(timeout(RETRY_PERIOD * 3 / 2, one.keep()).await.is_err());
        way.set_outage(Some(outage));
        let begin = Instant::now();
        assert_eq!(one.keep().await.to_string(), NOT_RENEWED);
        let stopped = Instant::now();
        assert!(stopped - begin <= RENEW_DEADLINE, "{:?}", stopped - begin);
        let taken = taken.await.unwrap();
        assert!(taken - stopped >= Duration::from_secs(3), "{:?}", taken - stopped);
        assert!(taken - begin <= DURATION + RETRY_PERIOD, "{:?}", taken - begin);
        assert_eq!(holder(&server), "two");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_one_failure_nor_an_annotation_is_a_loss() {
    let (server, mut one) = holding().await;
    server.set_outage(Some(Failure::Swallowed));
    assert!(timeout(RENEW_DEADLINE / 2, one.keep()).await.is_err());
    server.set_outage(None);
    server.change(LEASE, |lease| lease["metadata"]["annotations"] = json!({ "a": "b" }));
    assert!(timeout(10 * DURATION, one.keep()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn of_two_that_see_a_lease_expire_one_takes_it() {
    let server = role::server();
    server.put(LEASE, held_by("gone"));
    let begin = Instant::now();
    let gain = |identity: &'static str| {
        let mut candidate = candidate(&server, identity);
        async move {
            candidate.gain(|| {}).await;
            candidate
        }
    };
    let (mut one, mut two) = (tokio::spawn(gain("one")), tokio::spawn(gain("two")));
    let (winner, mut holds, loser) = tokio::select! {
        holds = &mut one => ("one", holds.unwrap(), two),
        holds = &mut two => ("two", holds.unwrap(), one),
    };
    assert!(begin.elapsed() >= DURATION, "{:?}", begin.elapsed());
    assert!(timeout(10 * DURATION, holds.keep()).await.is_err());
    assert_eq!(holder(&server), winner);
    assert!(!loser.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_changed_after_the_read_is_not_taken() {
    let server = role::server();
    server.put(LEASE, held_by(""));
    // Another candidate takes the free Lease right after it was read.
    server.intrude(LEASE, held_by("other"));
    let mut one = candidate(&server, "one");
    assert!(timeout(RETRY_PERIOD / 2, one.gain(|| {})).await.is_err());
    assert_eq!(holder(&server), "other");
}

#[tokio::test(start_paused = true)]
async fn a_holder_learns_that_another_has_taken_the_lease() {
    let (server, mut one) = holding().await;
    server.change(LEASE, |lease| lease["spec"]["holderIdentity"] = json!("other"));
    let lost = timeout(3 * RETRY_PERIOD, one.keep()).await.unwrap();
    assert_eq!(lost.to_string(), "the Lease is held by other");
}

#[tokio::test(start_paused = true)]
async fn work_under_way_is_dropped_when_the_lease_is_lost() {
    let (server, mut one) = holding().await;
    let (under_way, dropped) = oneshot::channel::<()>();
    let work = async move {
        let _under_way = under_way;
        pending::<()>().await;
    };
    server.set_outage(Some(Failure::Refused(500)));
    let lost = while_held(&mut one, work).await.unwrap_err();
    assert_eq!(lost.to_string(), NOT_RENEWED);
    assert!(dropped.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stand_by_is_ready_after_reading_the_lease() {
    let server = role::server();
    candidate(&server, "one").gain(|| {}).await;
    let ready = std::sync::atomic::AtomicBool::new(false);
    let set = || ready.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut two = candidate(&server, "two");
    server.set_outage(Some(Failure::Refused(403)));
    assert!(timeout(DURATION, two.gain(set)).await.is_err());
    assert!(!ready.load(std::sync::atomic::Ordering::Relaxed));
    server.set_outage(None);
    assert!(timeout(2 * RETRY_PERIOD, two.gain(set)).await.is_err());
    assert!(ready.load(std::sync::atomic::Ordering::Relaxed));
}
