//! The status socket: a real socket file, the agent's own client and clients that misbehave.

use crate::pod::PATIENCE;
use flux_agent::status::{StatusReport, StatusServer, ask};
use flux_contract::Phase;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend};

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

/// What is answered to `text`.
async fn say(path: &Path, text: &str) -> String {
    let mut socket = ReqSocket::new();
    socket.connect(&format!("ipc://{}", path.display())).await.unwrap();
    socket.send(text.to_owned().into()).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, socket.recv()).await.unwrap().unwrap();
    String::try_from(answer).unwrap()
}

#[tokio::test]
async fn the_directory_is_private_even_when_it_was_not() {
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("agent");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o777)).unwrap();
    let _server = StatusServer::bind(&private.join("status.sock")).unwrap();
    assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn a_stale_socket_is_no_agent_and_does_not_keep_a_new_one_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent/status.sock");
    fs::create_dir(path.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let error = ask(&path, PATIENCE).await.unwrap_err().to_string();
    assert!(error.starts_with("no agent runs here: nothing listens on "), "{error}");
    let (_reports, receiver) = watch::channel(report("quorum"));
    tokio::spawn(StatusServer::bind(&path).unwrap().serve(receiver));
    assert_eq!(ask(&path, PATIENCE).await.unwrap().phase, "quorum");
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
async fn what_is_no_request_is_answered_with_an_error() {
    let agent = agent();
    let wrong = ["", "status", "{}", r#"{"ask":"reboot"}"#, r#"{"ask":"status","x":1}"#];
    for wrong in wrong {
        let answer = say(&agent.path, wrong).await;
        assert!(answer.starts_with(r#"{"error":"unknown request"#), "{wrong}: {answer}");
    }
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

/// The greeting of ZMTP 3.0 with mechanism NULL, and READY of a REQ socket.
fn handshake() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10]) = (0xff, 0x7f, 3);
    bytes[12..16].copy_from_slice(b"NULL");
    let ready = b"\x05READY\x0bSocket-Type\0\0\0\x03REQ";
    bytes.extend([0x04, u8::try_from(ready.len()).unwrap()]);
    bytes.extend(ready);
    bytes
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_loses_its_own_connection_and_nothing_else() {
    let agent = agent();
    let huge = [&[0x02][..], &u64::MAX.to_be_bytes()].concat();
    let wrong: [&[u8]; 6] = [
        // Of a frame of nine bytes there comes one.
        &[0x01, 9, 0],
        &huge,
        // No envelope; a command; frames without end.
        &[0, 1, b'x'],
        &[0x04, 1, 0],
        &[0x01, 0].repeat(100),
        // Silence.
        &[],
    ];
    for wrong in wrong {
        let mut rude = UnixStream::connect(&agent.path).await.unwrap();
        rude.write_all(&[&handshake(), wrong].concat()).await.unwrap();
        rude.shutdown().await.unwrap();
        // It is hung up on, and nothing of it is left that could be looked at again and again.
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, rude.read_to_end(&mut rest)).await.unwrap().ok();
    }
    // Bytes that are no ZeroMQ at all, and a client that leaves without a word.
    let mut rude = UnixStream::connect(&agent.path).await.unwrap();
    rude.write_all(&[b'x'; 200]).await.unwrap();
    drop(rude);
    drop(UnixStream::connect(&agent.path).await.unwrap());
    // A client that asks and does not wait for the answer.
    let question = [&b"\x01\0\0\x10"[..], br#"{"ask":"status"}"#].concat();
    let mut hasty = UnixStream::connect(&agent.path).await.unwrap();
    hasty.write_all(&[handshake(), question].concat()).await.unwrap();
    drop(hasty);
    assert_eq!(ask(&agent.path, PATIENCE).await.unwrap(), report("hooks"));
}

#[tokio::test(start_paused = true)]
async fn clients_that_say_nothing_make_room_for_others_after_a_while() {
    let agent = agent();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(UnixStream::connect(&agent.path).await.unwrap());
    }
    let minute = Duration::from_mins(1);
    assert_eq!(ask(&agent.path, minute).await.unwrap(), report("hooks"));
}
