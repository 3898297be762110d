//! `wait`: its goals, and what it survives.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

#[tokio::test]
async fn waiting_survives_refused_watches_and_lists() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Starting", "Starting", None);
    scene.endpoint.react("watch=true", 1, Reaction::Refuse(500));
    let wait = scene.start(&["wait", "hello", "--for=condition=Ready", "--timeout=1m"]);
    wait.reports("hello: Starting: it is Starting\n").await;
    scene.endpoint.await_requests("watch=true", 1).await;
    // The watch is refused as too old, and then the list with which the next one begins.
    scene.endpoint.react("watch=true", 1, Reaction::Refuse(410));
    scene.endpoint.react("limit=", 1, Reaction::Refuse(500));
    scene.endpoint.await_requests("watch=true", 3).await;
    scene.minicluster("hello", "Running", "Running", None);
    scene.change("hello", |object| object["status"]["conditions"][0]["type"] = "Ready".into());
    let ended = wait.end().await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(ended.out, "hello: Running\n");
    assert!(ended.err.starts_with("hello: Starting: it is Starting\n"), "{}", ended.err);
}

#[tokio::test]
async fn goals_and_durations_are_those_of_kubectl() {
    let scene = Scene::new().await;
    scene.minicluster("over", "Failed", "CommandFailed", Some(1));
    scene.minicluster("runs", "Running", "Running", None);
    let lines = [
        ("wait over runs --for=condition=failed --timeout=500ms", 1, "timed out"),
        ("wait over --for=complete", 1, "it is Failed"),
        ("wait over nothing", 1, "no MiniCluster nothing"),
        ("wait runs --timeout=1", 1, "timed out after 1s: runs: Running"),
        ("wait runs --timeout=x", 2, "1h30m"),
        ("wait runs --for=x", 2, "condition=TYPE"),
        ("wait over --for=condition=Failed", 0, ""),
    ];
    scene.each_ends(&lines).await;
    let watches = scene.endpoint.count("watch=true");
    let wait = scene.start(&["wait", "over", "runs", "--for=delete"]);
    scene.endpoint.await_requests("watch=true", watches + 2).await;
    scene.ends(&["delete", "--all"]).await;
    assert_eq!(wait.end().await.out.matches(" deleted\n").count(), 2);
    scene.endpoint.freeze(true);
    scene.each_ends(&[("wait runs --timeout=1s", 1, "has not answered")]).await;
}
