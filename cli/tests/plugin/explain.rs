//! `explain` with some of the rights that it could use.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

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
