//! The local socket speaks enough of Flux's own protocol for a question after the broker's state.

#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;
use support::{Broker, Site, stderr, stdout, wait_for};

const ANY_NODE: u32 = u32::MAX;

/// A question as a client of Flux 0.88 sends it: magic, length, and the frames: an empty one that
/// ends the route, the topic, and the protocol frame.
fn question(topic: &str, node: u32, matchtag: u32) -> Vec<u8> {
    let mut body = vec![0, u8::try_from(topic.len()).expect("short")];
    body.extend(topic.as_bytes());
    body.extend([20, 0x8e, 1, 1, 0x09]);
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
    while let Some((&length, after)) = rest.split_first() {
        let (frame, after) = after.split_at(usize::from(length));
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// A user that has no passwd entry.
const OTHER_USER: u32 = 54_321;

/// Starts the only broker of `site` as [`OTHER_USER`] and waits until it runs. Needs root.
fn lead_of_another_user(site: &Site) -> Broker {
    for name in ["broker.toml", "curve.cert", "run0", "state"] {
        std::os::unix::fs::chown(site.path(name), Some(OTHER_USER), None).expect("chown");
    }
    let words = site.words("start", 0, &["sleep", "600"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = site.command(&words);
    std::os::unix::process::CommandExt::uid(&mut command, OTHER_USER);
    let lead = site.spawn(command, 0);
    site.wait_for_log(0, "quorum->run");
    lead
}

fn knock(site: &Site, rank: u32) -> (UnixStream, u8) {
    let path = site.path(&format!("run{rank}/local-{rank}"));
    let mut stream = wait_for("the socket", || UnixStream::connect(&path).ok());
    let mut byte = [9_u8; 1];
    stream.read_exact(&mut byte).expect("the first byte");
    (stream, byte[0])
}

fn ask(stream: &mut UnixStream, topic: &str, matchtag: u32) -> Vec<Vec<u8>> {
    stream.write_all(&question(topic, ANY_NODE, matchtag)).expect("asks");
    frames(stream)
}

/// The protocol frame of an answer by the owner's broker, as recorded from Flux 0.88.
fn protocol(errno: u32, matchtag: u32) -> Vec<u8> {
    let mut frame = vec![0x8e, 1, 2, 0x0b];
    for word in [nix::unistd::getuid().as_raw(), 5, errno, matchtag] {
        frame.extend(word.to_be_bytes());
    }
    frame
}

#[test]
fn the_state_is_told_in_flux_messages_several_times_over_one_connection() {
    let site = Site::new(1);
    let mut lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    let (mut stream, accepted) = knock(&site, 0);
    assert_eq!(accepted, 0);
    for matchtag in [1, 2, 700] {
        let answer = ask(&mut stream, "state-machine.get", matchtag);
        assert_eq!(answer.len(), 4, "{answer:?}");
        assert_eq!(answer[0], b"");
        assert_eq!(answer[1], b"state-machine.get");
        let payload = String::from_utf8(answer[2].clone()).expect("text");
        assert!(payload.starts_with(r#"{"state":"run","duration":"#), "{payload}");
        assert!(payload.ends_with("}\0"), "{payload}");
        assert_eq!(answer[3], protocol(0, matchtag));
    }
    // A question in two pieces is one question.
    let whole = question("state-machine.get", 0, 8);
    stream.write_all(&whole[..11]).expect("asks");
    stream.write_all(&whole[11..]).expect("asks");
    assert_eq!(frames(&mut stream)[3], protocol(0, 8));
    // An open connection does not keep the broker from ending.
    let before = std::time::Instant::now();
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.code(), Some(129));
    assert!(before.elapsed() < std::time::Duration::from_secs(2), "{:?}", before.elapsed());
    assert_eq!(stream.read(&mut [0; 8]).expect("reads"), 0);
}

#[test]
fn other_topics_and_other_nodes_are_unknown_and_garbage_ends_the_connection() {
    let site = Site::new(1);
    let _lead = site.start(0, &["sleep", "600"]);
    site.wait_for_log(0, "quorum->run");
    let (mut stream, _) = knock(&site, 0);
    let answer = ask(&mut stream, "foo.bar", 3);
    assert_eq!(answer[2], b"No service matching foo.bar is registered\0");
    assert_eq!(answer[3], protocol(38, 3));
    stream.write_all(&question("state-machine.get", 5, 4)).expect("asks");
    let answer = frames(&mut stream);
    assert_eq!(answer.len(), 3);
    assert_eq!(answer[2][3], 0x09, "no payload");
    assert_eq!(answer[2][12..16], 113_u32.to_be_bytes());
    stream.write_all(b"\x12garbage garbage").expect("writes");
    // Unread bytes make the end of a socket a reset.
    assert!(!stream.read(&mut [0; 8]).is_ok_and(|count| count > 0));
}

#[test]
fn a_broker_that_waits_for_its_parent_tells_so() {
    let site = Site::new(2);
    let _worker = site.start(1, &[]);
    site.wait_for_log(1, "load-builtins->join");
    let (mut stream, _) = knock(&site, 1);
    let answer = ask(&mut stream, "state-machine.get", 1);
    assert!(answer[2].starts_with(br#"{"state":"join","#), "{answer:?}");
}

/// Runs only as root: another user has to knock.
#[test]
fn strangers_are_turned_away_with_an_errno_and_guests_may_ask_for_the_state() {
    if !nix::unistd::getuid().is_root() {
        eprintln!("skipped: being other users needs root");
        return;
    }
    for (extra, first) in [("", 1), ("[access]\nallow-guest-user = true\n", 0)] {
        let site = Site::new(1);
        site.open_to_everyone();
        let config = site.read("broker.toml");
        site.write("broker.toml", &format!("{config}{extra}"));
        let _lead = site.start(0, &["sleep", "600"]);
        site.wait_for_log(0, "quorum->run");
        let asked = site.ask_as(65_534, 0, &["getattr", "size"]);
        if first == 1 {
            assert_eq!(asked.status.code(), Some(1));
            assert_eq!(stderr(&asked), "flux: flux_open: Operation not permitted\n");
            let line = "connector-local.err[0]: client_authenticate: uid=65534 no assigned roles";
            site.wait_for_log(0, line);
        } else {
            assert_eq!(stdout(&asked), "1\n", "{}", stderr(&asked));
        }
    }
}

/// As recorded from Flux 0.88, whose broker ran as another user. Runs only as root.
#[test]
fn root_and_guests_may_look_and_not_submit() {
    if !nix::unistd::getuid().is_root() {
        eprintln!("skipped: being other users needs root");
        return;
    }
    let site = Site::new(1);
    site.open_to_everyone();
    let config = site.read("broker.toml");
    let access = "[access]\nallow-guest-user = true\nallow-root-owner = true\n";
    site.write("broker.toml", &format!("{config}{access}"));
    let _lead = lead_of_another_user(&site);
    let said = |user, words: &[&str]| {
        let output = site.ask_as(user, 0, words);
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let refused = |text: &str| (Some(1), String::new(), format!("{text}\n"));
    let root = "submission of jobs as user root not supported";
    assert_eq!(said(0, &["submit", "true"]), refused(&format!("[Errno 22] {root}")));
    assert_eq!(said(0, &["run", "true"]), refused(&format!("flux-run: ERROR: {root}")));
    let uri = format!("local://{}", site.text("run0/local-0"));
    let proxied = said(0, &["proxy", &uri, "flux", "submit", "true"]);
    assert_eq!((proxied.0, proxied.1), (Some(1), String::new()), "{}", proxied.2);
    let batch = ["batch", "-n1", "--wrap", "true"];
    assert_eq!(said(0, &batch), refused(&format!("flux-batch: ERROR: {root}")));
    let guest = "only instance owner can use sign-type=none";
    assert_eq!(said(65_534, &["submit", "true"]), refused(&format!("[Errno 1] {guest}")));
    assert_eq!(said(65_534, &["run", "true"]), refused(&format!("flux-run: ERROR: {guest}")));
    let waiting = said(OTHER_USER, &["submit", "sleep", "600"]);
    assert_eq!(waiting.0, Some(0), "{}", waiting.2);
    // Everybody sees their own jobs unless all users' are asked for, and `--all` cancels no others.
    let names = |user, option| said(user, &["jobs", option, "-no", "{name}"]).1;
    assert_eq!(names(0, "-a") + &names(65_534, "-a"), "");
    assert_eq!((names(OTHER_USER, "-a"), names(0, "-A")), ("sleep\n".into(), "sleep\n".into()));
    assert_eq!(said(0, &["cancel", "--all"]).2, "flux-cancel: Matched 0 jobs\n");
    assert_eq!(said(0, &["cancel", waiting.1.trim()]).0, Some(0));
}

#[test]
fn uptime_dies_as_in_flux_where_the_owner_has_no_name() {
    use std::os::unix::process::ExitStatusExt;
    if !nix::unistd::getuid().is_root() {
        eprintln!("skipped: being other users needs root");
        return;
    }
    let site = Site::new(1);
    site.open_to_everyone();
    let _lead = lead_of_another_user(&site);
    let uptime = site.ask_as(OTHER_USER, 0, &["uptime"]);
    assert_eq!(uptime.status.signal(), Some(11));
    assert_eq!(stdout(&uptime), "");
}
