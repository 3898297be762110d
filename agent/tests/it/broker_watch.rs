//! Watching a broker over its socket.

use crate::pod::broker::{STATE_OF_LEAD, UNREACHABLE, replies};
use crate::pod::skip;
use crate::prelude::*;
use flux_agent::flux::{Event, Watch};
use flux_protocol::client::BrokerAddress;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::process::{DumpableBehavior, dumpable_behavior};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicUsize;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

fn watch(directory: &TempDir, owner: Option<u32>) -> Watch {
    let broker = BrokerAddress { socket: directory.path().join("local"), owner };
    Watch { broker, has_lead: false, hosts: 4 }
}

/// A watch of a broker that answers a topic with the result of `reply` while its directory exists, and the events of the
/// watch.
fn watched(
    change: impl FnOnce(&mut Watch),
    reply: impl Fn(&str) -> Result<String, u8> + Send + Sync + 'static,
) -> (TempDir, mpsc::UnboundedReceiver<Event>) {
    let directory = TempDir::new().unwrap();
    broker_that(directory.path().join("local"), move |topic, _| reply(topic));
    let (events, changes) = mpsc::unbounded_channel();
    let mut watch = watch(&directory, None);
    change(&mut watch);
    tokio::spawn(watch.run(events));
    (directory, changes)
}

async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap();
}

/// The events of a watch of a worker's broker in state `quorum`, whose requests to the lead fail with `errno`.
async fn reports_with_the_lead_answering(errno: u8) -> Vec<Event> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let has_lead = |watch: &mut Watch| watch.has_lead = true;
    let (_directory, mut changes) = watched(has_lead, move |topic| match topic {
        "state-machine.get" => Ok(state_text("quorum")),
        STATE_OF_LEAD => {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(errno)
        }
        _ => Err(NO_SERVICE),
    });
    until(|| asked.load(Ordering::SeqCst) >= 3).await;
    std::iter::from_fn(|| changes.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_worker_without_a_connection_to_the_lead_has_lost_it() {
    let state = Event::State("quorum".to_owned());
    let seen = reports_with_the_lead_answering(UNREACHABLE).await;
    assert_eq!(seen, [state.clone(), Event::LeadGone]);
    // Any other answer shows that the lead exists.
    assert_eq!(reports_with_the_lead_answering(1).await, [state]);
}

#[tokio::test]
async fn a_worker_whose_broker_ends_asks_the_lead() {
    for (lead, expected) in [
        (Ok("shutdown"), true),
        (Ok("goodbye"), true),
        (Ok("run"), false),
        (Ok("quorum"), false),
        // A broker between the two has ended, or another has taken its place.
        (Err(UNREACHABLE), false),
    ] {
        let has_lead = |watch: &mut Watch| watch.has_lead = true;
        let (_directory, mut changes) = watched(has_lead, move |topic| match topic {
            "state-machine.get" => Ok(state_text("shutdown")),
            STATE_OF_LEAD => lead.map(state_text),
            _ => Err(NO_SERVICE),
        });
        let mut next = async || timeout(PATIENCE, changes.recv()).await.unwrap();
        assert_eq!(next().await, Some(Event::State("shutdown".to_owned())));
        assert_eq!(next().await, Some(Event::LeadEnds(expected)));
    }
}

#[tokio::test]
async fn the_request_for_changes_is_repeated_until_the_broker_joins() {
    const TRY_AGAIN: u8 = 11;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let _watched = watched(
        |_| (),
        move |topic| match topic {
            "state-machine.get" => Ok(state_text("join")),
            _ if counted.fetch_add(1, Ordering::SeqCst) < 2 => Err(TRY_AGAIN),
            _ => Ok(String::new()),
        },
    );
    until(|| asked.load(Ordering::SeqCst) >= 3).await;
}

/// A broker reports its joins each time a client that has requested them disconnects.
#[tokio::test]
async fn joins_are_flushed_only_before_the_quorum() {
    for (has_lead, state, hosts, asked) in [
        (true, "quorum", 4, 5),
        (false, "quorum", 64, 20),
        (false, "quorum", 65, 0),
        (false, "run", 4, 0),
    ] {
        let [questions, states] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (counted, seen) = (Arc::clone(&questions), Arc::clone(&states));
        let change = |watch: &mut Watch| (watch.has_lead, watch.hosts) = (has_lead, hosts);
        let _watched = watched(change, move |topic| {
            match topic {
                "groups.get" => counted.fetch_add(1, Ordering::SeqCst),
                "state-machine.get" => seen.fetch_add(1, Ordering::SeqCst),
                _ => return Err(NO_SERVICE),
            };
            Ok(state_text(state))
        });
        let [questions, states] = [questions, states].map(|it| move || it.load(Ordering::SeqCst));
        until(|| questions() >= asked && states() > 0).await;
        assert!(asked > 0 || questions() == 0, "{state} {hosts}");
    }
}

#[tokio::test]
async fn root_connects_as_the_owner_of_the_broker() {
    if !nix::unistd::getuid().is_root() {
        return skip("connecting as another user needs root");
    }
    let directory = TempDir::new().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let listener = UnixListener::bind(directory.path().join("local")).unwrap();
    fs::set_permissions(directory.path().join("local"), Permissions::from_mode(0o777)).unwrap();
    std::thread::spawn(move || {
        let _silent = listener.accept().unwrap();
        for mut stream in listener.incoming().map(Result::unwrap) {
            let user = getsockopt(&stream, PeerCredentials).unwrap().uid();
            if user != 4321 {
                stream.write_all(&[1]).unwrap();
                continue;
            }
            std::thread::spawn(move || replies(stream, &|_: &str, _: &str| Ok(state_text("run"))));
        }
    });
    let (events, mut changes) = mpsc::unbounded_channel();
    let watching = tokio::spawn(watch(&directory, Some(4321)).run(events));
    let change = timeout(PATIENCE, changes.recv()).await.unwrap();
    assert_eq!(change, Some(Event::State("run".to_owned())));
    watching.abort();
    assert!(nix::unistd::geteuid().is_root(), "this process is who it was");
    // The kernel protects a process whose user has changed: PID 1 could not start itself as another user any more, by
    // /proc/1/exe, where the container lacks the capability SYS_PTRACE.
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
}
