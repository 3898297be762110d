//! `explain`: cause and remedy, and what it does without some of its rights.

use crate::scene::Scene;
use flux_testkit::http::Reaction;
use serde_json::{Value, json};

#[tokio::test]
async fn an_explanation_names_what_was_not_read() {
    let scene = Scene::hello("Starting", "running").await;
    scene.container("hello-0-a", "hello", "running");
    for (pattern, source) in [
        ("/events?", "Events: refused by the test"),
        ("/pods?", "pods: refused by the test"),
        ("/log?", "output of the lead: refused by the test"),
        ("/exec?", "reports of agents: refused by the test"),
    ] {
        scene.endpoint.react(pattern, 1, Reaction::Refuse(403));
        let out = scene.ends(&["explain", "hello"]).await.out;
        assert!(out.contains("cause:  it is Starting") && out.contains(source), "{out}");
    }
}

#[tokio::test]
async fn cause_and_remedy_follow_from_conditions_and_ranks() {
    let scene = Scene::new().await;
    let explains = async |parts: [&str; 2]| {
        scene.each_ends(&parts.map(|part| ("explain hello", 0, part))).await;
    };
    scene.minicluster("hello", "Failed", "CommandFailed", Some(127));
    explains(["cause:  it is Failed", "an image that has the command. It has ended: to run"]).await;
    scene.minicluster("hello", "Starting", "Starting", None);
    scene.pod("hello", 1, "x", "waiting");
    explains(["it is Starting. Rank 1 (hello-1-x): wait-for-lead", "NetworkPolicy"]).await;
    scene.change("hello", |object| object["status"] = Value::Null);
    explains(["cause:  the operator has not processed it yet", "check that the operator runs"])
        .await;
}

/// The operator gives a start ten seconds before its reason is `Waiting`.
#[tokio::test]
async fn a_pod_that_cannot_start_is_the_cause_at_once() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Starting", "Starting", None);
    for rank in 0..2 {
        scene.pod("hello", rank, "x", "waiting");
    }
    let path = "/api/v1/namespaces/default/pods/hello-1-x";
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    let scheduled = json!({ "type": "PodScheduled", "status": "False", "message": message });
    let image = json!({ "reason": "ErrImagePull", "message": "not found" });
    let image = json!({
        "name": "hello", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": image },
    });
    let how = "To change it: `kubectl flux delete hello`, then `kubectl apply -f FILE`";
    for (status, cause, remedy) in [
        (
            json!({ "phase": "Pending", "conditions": [scheduled] }),
            format!("Rank 1 (hello-1-x): has no node: {message}"),
            "add tolerations, or add nodes. ",
        ),
        (
            json!({ "phase": "Pending", "containerStatuses": [image] }),
            "Rank 1 (hello-1-x): does not start container hello: ErrImagePull not found".to_owned(),
            "or add pull secrets. ",
        ),
    ] {
        for state in ["Pending", "Starting", "Running"] {
            scene.minicluster("hello", state, "Starting", None);
            scene.endpoint.server.change(path, |pod| pod["status"] = status.clone());
            let out = scene.ends(&["explain", "hello"]).await.out;
            assert!(out.contains(&format!("cause:  it is {state}. {cause}\n")), "{out}");
            assert!(out.contains(&format!("{remedy}{how}\n")), "{out}");
        }
    }
    // The operator has written it.
    scene.change("hello", |object| {
        let message = "pod hello-1-x does not start container hello: ErrImagePull not found";
        object["status"]["conditions"][0]["message"] = json!(message);
    });
    let out = scene.ends(&["explain", "hello"]).await.out;
    assert!(!out.contains("Rank 1") && out.contains("or add pull secrets. "), "{out}");
}

#[tokio::test]
async fn a_message_is_printed_once() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Failed", "HookFailed", Some(69));
    let message = "the command was not run (exit code 69)";
    scene.change("hello", |object| {
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        conditions[0]["message"] = json!(message);
        let mut stalled = conditions[0].clone();
        stalled["type"] = json!("Stalled");
        conditions.push(stalled);
    });
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": { "kind": "MiniCluster", "name": "hello" }, "type": "Warning",
        "reason": "HookFailed", "message": message, "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    scene.endpoint.server.put("/api/v1/namespaces/default/events/e", event);
    let out = scene.ends(&["explain", "hello"]).await.out;
    assert_eq!(out.matches(message).count(), 1, "{out}");
    for line in
        ["  Failed=True, HookFailed, for ", "  Stalled=True, ", ", MiniCluster hello: HookFailed\n"]
    {
        assert!(out.contains(line), "{line}: {out}");
    }
    let json = scene.ends(&["explain", "hello", "-ojson"]).await.out;
    assert_eq!(json.matches(message).count(), 4, "{json}");
}

/// `run` prints it before it deletes the MiniCluster.
#[tokio::test]
async fn the_lines_of_a_broker_that_failed_are_its_last_output() {
    let scene = Scene::hello("Failed", "terminated").await;
    let line = b"<3>broker.err[0]: x";
    scene.endpoint.logs.write("hello-0-a/hello", &[line]);
    for (reason, output) in
        [("HookFailed", "lead\n  one\n"), ("BrokerFailed", "lead\n  one\n  <3>broker.err[0]: x\n")]
    {
        scene.minicluster("hello", "Failed", reason, Some(1));
        let out = scene.ends(&["explain", "hello"]).await.out;
        assert!(
            out.contains(output) && (reason == "BrokerFailed" || !out.contains("broker.err")),
            "{out}"
        );
    }
}
