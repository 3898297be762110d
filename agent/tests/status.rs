//! The status socket: a real socket file, the agent's own client and clients that misbehave.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flux_agent::status::{StatusError, StatusReport, StatusServer, ask};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend};

const PATIENCE: Duration = Duration::from_secs(20);

fn report(phase: &str) -> StatusReport {
    StatusReport { phase: phase.to_owned(), rank: Some(3), ready: true, ..StatusReport::default() }
}

struct Agent {
    _directory: tempfile::TempDir,
    path: PathBuf,
    reports: watch::Sender<StatusReport>,
}

/// A served socket whose directory did not exist, with a stale socket in it if asked for.
async fn agent() -> Agent {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent/status.sock");
    let (reports, receiver) = watch::channel(report("hooks"));
    let server = StatusServer::bind(&path).await.unwrap();
    tokio::spawn(server.serve(receiver));
    Agent { _directory: directory, path, reports }
}

async fn say(path: &Path, text: &str) -> String {
    let mut socket = ReqSocket::new();
    socket.connect(&format!("ipc://{}", path.display())).await.unwrap();
    socket.send(text.to_owned().into()).await.unwrap();
    let reply = tokio::time::timeout(PATIENCE, socket.recv()).await.unwrap().unwrap();
    String::from_utf8(reply.get(0).unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn the_latest_report_is_told() {
    let agent = agent().await;
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), report("hooks"));
    agent.reports.send_replace(report("command"));
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), report("command"));
}

#[tokio::test]
async fn the_directory_is_private_even_when_it_was_not() {
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("agent");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o777)).unwrap();
    let _server = StatusServer::bind(&private.join("status.sock")).await.unwrap();
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn a_stale_socket_is_no_agent_and_does_not_keep_a_new_one_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent/status.sock");
    fs::create_dir(path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    assert!(matches!(ask(&path, PATIENCE).await, Err(StatusError::NotRunning { .. })));
    let (_reports, receiver) = watch::channel(report("quorum"));
    tokio::spawn(StatusServer::bind(&path).await.unwrap().serve(receiver));
    assert_eq!(ask(&path, PATIENCE).await.unwrap().phase, "quorum");
}

#[tokio::test]
async fn where_no_agent_runs_that_is_said_at_once() {
    let error = ask(Path::new("/nonexistent/status.sock"), PATIENCE).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no agent runs here: nothing listens on /nonexistent/status.sock"
    );
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("silent.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let error = ask(&path, Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, StatusError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn a_path_longer_than_a_unix_socket_may_have_is_named() {
    let path = PathBuf::from(format!("/tmp/{}/status.sock", "x".repeat(120)));
    assert!(matches!(StatusServer::bind(&path).await, Err(StatusError::LongPath { .. })));
}

#[tokio::test]
async fn clients_that_misbehave_get_an_error_or_nothing_and_the_server_goes_on() {
    let agent = agent().await;
    assert!(say(&agent.path, "not json").await.starts_with(r#"{"error""#));
    // Bytes that are no ZeroMQ at all, and a client that leaves without a word.
    let mut rude = UnixStream::connect(&agent.path).await.unwrap();
    rude.write_all(&[b'x'; 200]).await.unwrap();
    drop(rude);
    drop(UnixStream::connect(&agent.path).await.unwrap());
    // A client that asks and does not wait for the answer.
    let mut hasty = ReqSocket::new();
    hasty.connect(&format!("ipc://{}", agent.path.display())).await.unwrap();
    hasty.send(r#"{"ask":"status"}"#.to_owned().into()).await.unwrap();
    drop(hasty);
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), report("hooks"));
}

#[tokio::test]
async fn many_clients_at_once_all_get_their_answer() {
    let agent = agent().await;
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let path = agent.path.clone();
            tokio::spawn(async move { ask(&path, PATIENCE).await.unwrap() })
        })
        .collect();
    for answer in asked {
        assert_eq!(answer.await.unwrap(), report("hooks"));
    }
}
