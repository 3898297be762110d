//! The status socket: a real socket file, the agent's own client and clients that misbehave.

use crate::pod::PATIENCE;
use flux_agent::status::{StatusReport, StatusServer, ask};
use flux_contract::Phase;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;

fn report(phase: &str) -> StatusReport {
    StatusReport { phase: phase.to_owned(), rank: Some(3), ready: true, ..StatusReport::default() }
}

struct Agent {
    _directory: tempfile::TempDir,
    path: PathBuf,
    reports: watch::Sender<StatusReport>,
}

/// A served socket whose directory did not exist, with a stale socket in it if asked for.
fn agent() -> Agent {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent/status.sock");
    let (reports, receiver) = watch::channel(report("hooks"));
    let server = StatusServer::bind(&path).unwrap();
    tokio::spawn(server.serve(receiver));
    Agent { _directory: directory, path, reports }
}

#[tokio::test]
async fn a_stale_socket_is_no_agent_and_an_open_directory_becomes_private_with_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("agent");
    let path = private.join("status.sock");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o777)).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let error = ask(&path, PATIENCE).await.unwrap_err().to_string();
    assert!(error.starts_with("no agent runs here: nothing listens on "), "{error}");
    let (_reports, receiver) = watch::channel(report("quorum"));
    tokio::spawn(StatusServer::bind(&path).unwrap().serve(receiver));
    assert_eq!(ask(&path, PATIENCE).await.unwrap().phase, "quorum");
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("silent.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = ask(&path, Duration::from_millis(100)).await.unwrap_err().to_string();
    assert!(error.ends_with("gave no answer within 100 ms"), "{error}");
}

#[tokio::test]
async fn a_path_longer_than_a_unix_socket_may_have_is_named() {
    let path = PathBuf::from(format!("/tmp/{}/status.sock", "x".repeat(120)));
    let error = StatusServer::bind(&path).unwrap_err().to_string();
    assert!(error.contains("is longer than the 107 bytes"), "{error}");
}

#[tokio::test]
async fn the_running_phase_counts_up_to_the_answer() {
    let agent = agent();
    let phase = |name: &str, duration_milliseconds| Phase {
        name: name.to_owned(),
        start_milliseconds: 0,
        duration_milliseconds,
    };
    agent.reports.send_replace(StatusReport {
        phases: vec![phase("prepare", 7), phase("hooks", 0)],
        since: Instant::now().checked_sub(Duration::from_mins(1)),
        ..report("hooks")
    });
    let phases = ask(&agent.path, PATIENCE).await.unwrap().phases;
    assert_eq!(phases[0], phase("prepare", 7));
    assert!((60_000..120_000).contains(&phases[1].duration_milliseconds), "{phases:?}");
}

#[tokio::test]
async fn no_client_holds_up_another_whether_it_reads_or_writes_or_has_gone() {
    let agent = agent();
    let mut others = Vec::new();
    for _ in 0..100 {
        drop(UnixStream::connect(&agent.path).await.unwrap());
        let mut rude = UnixStream::connect(&agent.path).await.unwrap();
        // It may be hung up on before.
        let _ = rude.write_all(&[b'x'; 200]).await;
        others.push(rude);
    }
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), report("hooks"));
    // The longest that a report says.
    let last_error = Some("\0".repeat(4096));
    let long = StatusReport { last_error, ..report("hooks") };
    agent.reports.send_replace(long.clone());
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), long);
}
