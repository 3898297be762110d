//! The local socket speaks enough of Flux's own protocol for what the agent asks.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;

use crate::site::{Site, skipped_without_root, stderr, stdout, wait_for};
use nix::sys::signal::Signal;

const ANY_NODE: u32 = u32::MAX;

/// A question as a client of Flux 0.88 sends it: magic, length, and the frames: an empty one that
/// ends the route, the topic, the payload if there is one, and the protocol frame.
fn question(topic: &str, payload: Option<&str>, node: u32, matchtag: u32) -> Vec<u8> {
    let mut body = vec![0, u8::try_from(topic.len()).expect("short")];
    body.extend(topic.as_bytes());
    if let Some(payload) = payload {
        body.push(u8::try_from(payload.len() + 1).expect("short"));
        body.extend(payload.as_bytes());
        body.push(0);
    }
    body.extend([20, 0x8e, 1, 1, if payload.is_some() { 0x0b } else { 0x09 }]);
    for word in [0, 0, node, matchtag] {
        body.extend(word.to_be_bytes());
    }
    let mut message = 0xffee_0012_u32.to_ne_bytes().to_vec();
    message.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
    message.extend(body);
    message
}

/// The frames of one message.
fn frames(stream: &mut UnixStream) -> Vec<Vec<u8>> {
    let mut head = [0_u8; 8];
    stream.read_exact(&mut head).expect("a head");
    assert_eq!(head[..4], 0xffee_0012_u32.to_ne_bytes());
    let length = u32::from_be_bytes(head[4..].try_into().expect("four bytes"));
    let mut body = vec![0; usize::try_from(length).expect("fits")];
    stream.read_exact(&mut body).expect("a body");
    let mut rest = body.as_slice();
    let mut frames = Vec::new();
    while let Some((&length, mut after)) = rest.split_first() {
        let mut length = usize::from(length);
        if length == 255 {
            let (long, others) = after.split_first_chunk().expect("a length");
            length = usize::try_from(u32::from_be_bytes(*long)).expect("fits");
            after = others;
        }
        let (frame, after) = after.split_at(length);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

fn knock(site: &Site, rank: u32) -> UnixStream {
    let path = site.path(&format!("run{rank}/local-{rank}"));
    let mut stream = wait_for("the socket", || UnixStream::connect(&path).ok());
    let mut byte = [9_u8; 1];
    stream.read_exact(&mut byte).expect("the first byte");
    assert_eq!(byte, [0]);
    stream
}

fn ask(stream: &mut UnixStream, topic: &str, node: u32, matchtag: u32) -> Vec<Vec<u8>> {
    stream.write_all(&question(topic, None, node, matchtag)).expect("asks");
    frames(stream)
}

/// The errno and the payload of the lead's answer, without the NUL at its end.
fn ask_lead(stream: &mut UnixStream, topic: &str, payload: &str) -> (u8, String) {
    stream.write_all(&question(topic, Some(payload), 0, 1)).expect("asks");
    let answer = frames(stream);
    let payload = if answer.len() > 3 { answer[2].as_slice() } else { b"\0" };
    let text = payload.strip_suffix(b"\0").expect("ends with NUL").to_vec();
    (answer[answer.len() - 1][15], String::from_utf8(text).expect("text"))
}

/// The protocol frame of an answer by the owner's broker.
fn protocol(errno: u32, matchtag: u32) -> Vec<u8> {
    let mut frame = vec![0x8e, 1, 2, 0x0b];
    for word in [nix::unistd::getuid().as_raw(), 5, errno, matchtag] {
        frame.extend(word.to_be_bytes());
    }
    frame
}

#[test]
fn the_state_is_told_several_times_over_one_connection_and_other_topics_are_unknown() {
    let site = Site::new(1);
    let mut lead = site.start_one();
    let mut stream = knock(&site, 0);
    for (node, matchtag) in [(ANY_NODE, 1), (0, 700)] {
        let answer = ask(&mut stream, "state-machine.get", node, matchtag);
        assert_eq!(answer[..2], [b"".to_vec(), b"state-machine.get".to_vec()]);
        let payload = String::from_utf8(answer[2].clone()).expect("text");
        assert!(payload.starts_with(r#"{"state":"run","duration":"#), "{payload}");
        assert!(payload.ends_with("}\0"), "{payload}");
        assert_eq!(answer[3..], [protocol(0, matchtag)]);
    }
    let answer = ask(&mut stream, "foo.bar", ANY_NODE, 3);
    assert_eq!(answer[2], b"No service matching foo.bar is registered\0");
    assert_eq!(answer[3], protocol(38, 3));
    let answer = ask(&mut stream, "state-machine.get", 5, 4);
    assert_eq!(answer[2][12..16], 113_u32.to_be_bytes(), "there is no such rank");
    // An open connection does not keep the broker from ending.
    assert_eq!(lead.end(), Some(0));
}

/// In state `run` it would end.
#[test]
fn a_worker_that_another_lead_sends_away_before_the_quorum_stays_and_has_no_way_to_the_lead() {
    let site = Site::new(3);
    let lead = site.start(0, &[]);
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "init->quorum");
    let mut stream = knock(&site, 1);
    let answer = ask(&mut stream, "state-machine.get", 0, 1);
    assert!(answer[2].starts_with(br#"{"state":"quorum""#), "{answer:?}");
    lead.signal(Signal::SIGKILL);
    drop(lead);
    let _another = site.start(0, &[]);
    site.wait_for_log(1, "sent disconnect control message");
    let answer = ask(&mut stream, "state-machine.get", 0, 2);
    assert_eq!(answer[answer.len() - 1][12..16], 113_u32.to_be_bytes(), "{answer:?}");
    assert!(worker.runs());
}

#[test]
fn the_lead_drains_ranks_and_lists_what_runs_there_whichever_broker_is_asked() {
    let site = Site::new(2);
    let _brokers = site.start_two();
    let job = ["submit", "--quiet", "-N2", "bash", "-c", "until [ -e go ]; do sleep 0.05; done"];
    assert_eq!(site.ask(0, &job).status.code(), Some(0));
    let mut stream = knock(&site, 1);
    let mut ask = |topic: &str, payload: &str| ask_lead(&mut stream, topic, payload);
    let running = r#"{"max_entries":9,"attrs":[],"constraint":{"and":[{"states":["running"]},{"ranks":["1"]}]}}"#;
    let list = wait_for("the job", || {
        let (errno, list) = ask("job-list.list", running);
        assert_eq!(errno, 0, "{list}");
        list.contains("id").then_some(list)
    });
    assert_eq!(list.matches("id").count(), 1, "{list}");
    let drain = r#"{"targets":"1","reason":"bad fan"}"#;
    let drained = || stdout(&site.ask(0, &["resource", "drain", "-no", "{ranks} {reason}"]));
    assert_eq!(drained(), "");
    assert_eq!(ask("resource.drain", drain), (0, String::new()));
    assert_eq!(ask("resource.drain", drain), (17, "rank 1 already drained".to_owned()));
    assert_eq!(drained(), "1 bad fan\n");
    let (errno, status) = ask("resource.status", "{}");
    assert_eq!(errno, 0);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["drain"]["1"]["reason"], "bad fan");
    let free = || stdout(&site.ask(0, &["resource", "list", "--states=free", "-no", "{nnodes}"]));
    site.write("go", "");
    wait_for("the lead alone", || (free() == "1\n").then_some(()));
    assert_eq!(ask("resource.undrain", r#"{"targets":"1"}"#), (0, String::new()));
    assert_eq!(
        ask("resource.undrain", r#"{"targets":"1"}"#),
        (17, "rank 1 not drained".to_owned())
    );
    wait_for("both", || (free() == "2\n").then_some(()));
    assert_eq!(ask("resource.drain", r#"{"targets":"7","reason":""}"#).0, 22);
    assert_eq!(ask("resource.drain", r#"{"reason":"bad fan"}"#).0, 71);
}

#[test]
fn a_broker_that_waits_for_its_parent_tells_so() {
    let site = Site::new(2);
    let _worker = site.start(1, &[]);
    site.wait_for_log(1, "load-builtins->join");
    let answer = ask(&mut knock(&site, 1), "state-machine.get", ANY_NODE, 1);
    assert!(answer[2].starts_with(br#"{"state":"join","#), "{answer:?}");
}

/// A user that has no passwd entry.
const OTHER_USER: u32 = 54_321;

#[test]
fn root_may_look_and_not_submit_and_strangers_are_turned_away() {
    if skipped_without_root() {
        return;
    }
    let site = Site::new(1);
    site.set_mode(".", 0o777);
    let config = site.read("broker.toml");
    site.write("broker.toml", &format!("{config}[access]\nallow-root-owner = true\n"));
    std::os::unix::fs::chown(site.path("curve.cert"), Some(OTHER_USER), None).expect("chown");
    let mut command = site.broker("start", 0, &[]);
    command.uid(OTHER_USER).gid(OTHER_USER).env("HOME", "/tmp");
    let _lead = site.spawn(command, 0);
    site.wait_for_log(0, "quorum->run");
    site.set_mode("run0", 0o755);
    let ask_as = |user, words: &[&str]| site.question(0, words).uid(user).output().expect("runs");

    assert_eq!(stdout(&ask_as(0, &["getattr", "size"])), "1\n");
    for command in ["submit", "run"] {
        let refused = stderr(&ask_as(0, &[command, "true"]));
        assert!(refused.contains("submission of jobs as user root not supported"), "{refused}");
    }
    let submitted = ask_as(OTHER_USER, &["submit", "sleep", "120"]);
    assert_eq!(submitted.status.code(), Some(0), "{}", stderr(&submitted));
    // Everybody sees their own jobs.
    let names = |user| stdout(&ask_as(user, &["jobs", "-ano", "{name}"]));
    assert_eq!((names(0), names(OTHER_USER)), (String::new(), "sleep\n".to_owned()));

    let stranger = ask_as(65_534, &["getattr", "size"]);
    assert_eq!(stranger.status.code(), Some(1));
    assert!(stderr(&stranger).contains("Operation not permitted"), "{}", stderr(&stranger));
    site.wait_for_log(
        0,
        "connector-local.err[0]: client_authenticate: uid=65534 no assigned roles",
    );
}
