//! The local socket speaks enough of Flux's own protocol for what the agent asks.

use crate::site::{Site, answer, wait_for};
use flux_protocol::message::{HEAD, Message, REQUEST, RESPONSE, length};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;

pub(crate) const ANY_NODE: u32 = u32::MAX;

pub(crate) fn connect(site: &Site, rank: u32) -> UnixStream {
    let path = site.path(&format!("run{rank}/local-{rank}"));
    let mut stream = wait_for("the socket", || UnixStream::connect(&path).ok());
    let mut byte = [9_u8; 1];
    stream.read_exact(&mut byte).expect("the first byte");
    assert_eq!(byte, [0]);
    stream
}

/// Asks, and gives the errno and the payload of the answer.
pub(crate) fn ask(
    stream: &mut UnixStream,
    topic: &str,
    payload: Option<&str>,
    node: u32,
) -> (u32, String) {
    let asked = Message {
        kind: REQUEST,
        topic: topic.to_owned(),
        payload: payload.map(str::to_owned),
        user: u32::MAX,
        node,
        matchtag: 700,
        ..Message::default()
    };
    stream.write_all(&asked.encode()).expect("asks");
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).expect("a head");
    let mut body = vec![0; length(head).expect("a message") as usize];
    stream.read_exact(&mut body).expect("a body");
    let Message { payload, node, roles, .. } = Message::decode(&body).expect("frames");
    let user = nix::unistd::getuid().as_raw();
    // The role of an owner; an answer of another broker is not local.
    assert_eq!(roles & 1, 1);
    let expected = Message { kind: RESPONSE, payload: payload.clone(), user, roles, node, ..asked };
    assert_eq!(Message::decode(&body), Ok(expected));
    (node, payload.unwrap_or_default())
}

fn state(stream: &mut UnixStream, node: u32) -> String {
    let (errno, text) = ask(stream, "state-machine.get", None, node);
    assert_eq!(errno, 0, "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(answer["duration"].is_f64(), "{text}");
    answer["state"].as_str().expect("a state").to_owned()
}

#[test]
fn one_connection_answers_the_state_several_times() {
    let (site, mut lead) = Site::one();
    let mut stream = connect(&site, 0);
    for node in [ANY_NODE, 0] {
        assert_eq!(state(&mut stream, node), "run");
    }
    let (errno, text) = ask(&mut stream, "foo.bar", None, ANY_NODE);
    assert_eq!((errno, text.as_str()), (38, "No service matching foo.bar is registered"));
    assert_eq!(ask(&mut stream, "state-machine.get", None, 5).0, 113, "there is no such rank");
    // An open connection does not keep the broker from ending.
    assert_eq!(lead.end(), Some(0));
}

/// In state `run` it would end.
#[test]
fn a_worker_rejected_before_the_quorum_stays_without_a_lead() {
    let site = Site::new(3);
    let lead = site.start(0, &[]);
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "init->quorum");
    let mut stream = connect(&site, 1);
    assert_eq!(state(&mut stream, 0), "quorum");
    drop(lead);
    let _another = site.start(0, &[]);
    site.wait_for_log(1, "sent disconnect control message");
    assert_eq!(ask(&mut stream, "state-machine.get", None, 0).0, 113);
    assert!(worker.runs());
}

#[test]
fn any_broker_drains_ranks_and_lists_their_jobs() {
    let (site, _brokers) = Site::two();
    let job = ["submit", "--quiet", "-N2", "bash", "-c", "until [ -e go ]; do sleep 0.05; done"];
    site.ok(0, &job);
    let mut stream = connect(&site, 1);
    let mut ask = |topic: &str, payload: &str| ask(&mut stream, topic, Some(payload), 0);
    let running = r#"{"max_entries":9,"attrs":[],"constraint":{"and":[{"states":["running"]},{"ranks":["1"]}]}}"#;
    let list = wait_for("the job", || {
        let (errno, list) = ask("job-list.list", running);
        assert_eq!(errno, 0, "{list}");
        list.contains("id").then_some(list)
    });
    assert_eq!(list.matches("id").count(), 1, "{list}");
    let drain = r#"{"targets":"1","reason":"bad fan"}"#;
    assert_eq!(ask("resource.drain", drain), (0, String::new()));
    assert_eq!(ask("resource.drain", drain), (17, "rank 1 already drained".to_owned()));
    let json = |(errno, text): (u32, String)| -> serde_json::Value {
        assert_eq!(errno, 0, "{text}");
        serde_json::from_str(&text).expect("JSON")
    };
    assert_eq!(json(ask("resource.status", "{}"))["drain"]["1"]["reason"], "bad fan");
    let sets = json(ask("resource.sched-status", "{}"));
    let down = serde_json::json!([{ "rank": "1", "children": { "core": "0-1" } }]);
    assert_eq!(sets["down"]["execution"]["R_lite"], down);
    assert_ne!(sets["allocated"]["execution"]["R_lite"], down, "the job is on both ranks");
    let free = || site.ok(0, &["resource", "list", "--states=free", "-no", "{nnodes}"]);
    site.write("go", "");
    wait_for("the lead alone", || (free() == "1\n").then_some(()));
    let undrain = r#"{"targets":"1"}"#;
    assert_eq!(ask("resource.undrain", undrain), (0, String::new()));
    assert_eq!(ask("resource.undrain", undrain), (17, "rank 1 not drained".to_owned()));
    wait_for("both", || (free() == "2\n").then_some(()));
    assert_eq!(ask("resource.drain", r#"{"targets":"7","reason":""}"#).0, 22);
    assert_eq!(ask("resource.drain", r#"{"reason":"bad fan"}"#).0, 71);
}

/// A user that has no passwd entry.
const OTHER_USER: u32 = 54_321;

#[test]
fn root_may_only_read_and_strangers_are_refused() {
    if !nix::unistd::getuid().is_root() {
        eprintln!("skipped: being other users needs root");
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
    let ask_as = |user, words: &[&str]| {
        let mut question = site.question(0, words);
        question.uid(user);
        answer(question)
    };

    assert_eq!(ask_as(0, &["getattr", "size"]).out, "1\n");
    for command in ["submit", "run"] {
        let refused = ask_as(0, &[command, "true"]).err;
        assert!(refused.contains("submission of jobs as user root not supported"), "{refused}");
    }
    assert_eq!(ask_as(OTHER_USER, &["submit", "sleep", "120"]).code, Some(0));
    // Everybody sees their own jobs.
    let names = |user| ask_as(user, &["jobs", "-ano", "{name}"]).out;
    assert_eq!((names(0), names(OTHER_USER)), (String::new(), "sleep\n".to_owned()));

    let stranger = ask_as(65_534, &["getattr", "size"]);
    assert_eq!(stranger.code, Some(1));
    assert!(stranger.err.contains("Operation not permitted"), "{stranger:?}");
    site.wait_for_log(
        0,
        "connector-local.err[0]: client_authenticate: uid=65534 no assigned roles",
    );
}
