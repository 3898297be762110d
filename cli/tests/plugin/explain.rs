//! `explain`: cause and remedy, and what it does without some of its rights.

use crate::scene::Scene;
use flux_testkit::http::Reaction;
use serde_json::Value;

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
    explains(["cause:  it is Failed", "use the full path, or an image that has the command"]).await;
    scene.minicluster("hello", "Starting", "Starting", None);
    scene.pod("hello", 1, "x", "waiting");
    explains(["it is Starting. Rank 1 (hello-1-x): wait-for-lead", "NetworkPolicy"]).await;
    scene.change("hello", |object| object["status"] = Value::Null);
    explains(["cause:  the operator has not processed it yet", "check that the operator runs"])
        .await;
}
