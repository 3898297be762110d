//! `exec` and `attach`: what they ask of the API server. The test's server has no programs in its pods.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

#[tokio::test]
async fn input_is_taken_only_where_it_is_asked_for() {
    let scene = Scene::hello("Running", "running").await;
    for (line, has_input, container) in [
        ("exec hello -- cat", false, "hello"),
        ("exec hello --rank=0 sh -c -i", false, "hello"),
        ("exec hello -i -- cat", true, "hello"),
        ("exec -it hello -c sidecar cat", true, "sidecar"),
    ] {
        scene.endpoint.react("/exec?", 1, Reaction::Refuse(403));
        scene.each_ends(&[(line, 125, "refused by the test")]).await;
        let requests = scene.endpoint.requests();
        let request = requests.iter().rfind(|line| line.contains("/exec?")).unwrap();
        assert_eq!(request.contains("stdin=true"), has_input, "{request}");
        assert!(request.contains(&format!("container={container}")), "{request}");
        assert_eq!(request.contains("connect"), container == "hello", "{request}");
        assert!(!request.contains("tty=true"), "it has no terminal: {request}");
    }
}

#[tokio::test]
async fn attach_connects_again_until_it_is_refused() {
    let scene = Scene::hello("Running", "running").await;
    scene.endpoint.react("/exec?", 1, Reaction::Refuse(403));
    scene.each_ends(&[("attach hello f2", 125, "refused by the test")]).await;
    assert_eq!(scene.endpoint.count("/exec?"), 1);
    scene.endpoint.react("/exec?", 1, Reaction::Refuse(500));
    // As of an API server that has just started.
    scene.endpoint.react("/exec?", 1, Reaction::Refuse(404));
    scene.endpoint.react("/exec?", usize::MAX, Reaction::Refuse(403));
    let ended = scene.ends(&["attach", "hello", "f2"]).await;
    assert_eq!((ended.code, scene.endpoint.count("/exec?")), (125, 14), "{}", ended.err);
    assert_eq!(ended.err.matches("connecting again").count(), 1, "{}", ended.err);
}

#[tokio::test]
async fn a_number_of_tasks_is_not_taken_for_a_namespace() {
    let scene = Scene::hello("Running", "running").await;
    let line = "submit hello -n 8 -- hostname";
    scene.each_ends(&[(line, 1, "write the number of tasks as `-n8`")]).await;
}
