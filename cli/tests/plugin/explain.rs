//! `explain` with some of the rights that it could use.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

#[tokio::test]
async fn an_explanation_names_what_was_not_read() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Starting", "Starting", None);
    let pod = scene.pod("hello", 0, "a", "running");
    scene.endpoint.logs.write(&format!("{pod}/hello"), &[b"one"]);
    scene.container(&pod, "hello", "running");
    for (pattern, source) in [
        ("/events?", "Events: refused by the test"),
        ("/pods?", "pods: refused by the test"),
        ("/log?", "output of the lead: refused by the test"),
    ] {
        scene.endpoint.react(pattern, 1, Reaction::Refuse(403));
        let ended = scene.ends(&["explain", "hello"]).await;
        assert_eq!(ended.code, 0, "{source}: {}", ended.err);
        let out = ended.out;
        assert!(out.contains("cause:  it is Starting") && out.contains(source), "{out}");
    }
}

#[tokio::test]
async fn an_agent_that_cannot_be_reached_is_named() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Starting", "Starting", None);
    let pod = scene.pod("hello", 0, "a", "running");
    let mut object =
        scene.endpoint.server.get(&format!("/api/v1/namespaces/default/pods/{pod}")).unwrap();
    object["status"]["containerStatuses"][0]["ready"] = false.into();
    scene.endpoint.server.put(&format!("/api/v1/namespaces/default/pods/{pod}"), object);
    scene.endpoint.react("/exec?", 1, Reaction::Refuse(403));
    let ended = scene.ends(&["explain", "hello"]).await;
    assert!(ended.code == 0 && ended.out.contains("reports of agents: "), "{ended:?}");
}
