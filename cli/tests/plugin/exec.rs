//! `exec` and `attach`: what they ask of the API server. The test's server has no programs in its pods.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

async fn running() -> Scene {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Running", "Running", None);
    scene.pod("hello", 0, "a", "running");
    scene
}

#[tokio::test]
async fn input_is_taken_only_where_it_is_asked_for() {
    let scene = running().await;
    for (number, (options, has_input, container)) in [
        ("hello -- cat", false, "hello"),
        ("hello --rank=0 sh -c -i", false, "hello"),
        ("hello -i -- cat", true, "hello"),
        ("-it hello -c sidecar cat", true, "sidecar"),
    ]
    .into_iter()
    .enumerate()
    {
        scene.endpoint.react("/exec?", 1, Reaction::Refuse(403));
        let arguments: Vec<&str> = ["exec"].into_iter().chain(options.split(' ')).collect();
        let ended = scene.ends(&arguments).await;
        assert_eq!(ended.code, 125, "{}", ended.err);
        let requests = scene.endpoint.requests();
        let request = requests.iter().filter(|line| line.contains("/exec?")).nth(number).unwrap();
        assert_eq!(request.contains("stdin=true"), has_input, "{request}");
        assert!(request.contains(&format!("container={container}")), "{request}");
        assert_eq!(request.contains("connect"), container == "hello", "{request}");
        assert!(!request.contains("tty=true"), "it has no terminal: {request}");
    }
}

#[tokio::test]
async fn attach_connects_again_until_it_is_refused() {
    let scene = running().await;
    scene.endpoint.react("/exec?", 1, Reaction::Refuse(403));
    let ended = scene.ends(&["attach", "hello", "f2"]).await;
    assert_eq!((ended.code, scene.endpoint.count("/exec?")), (125, 1), "{}", ended.err);
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
    let ended = running().await.ends(&["submit", "hello", "-n", "8", "--", "hostname"]).await;
    assert!(
        ended.code == 1 && ended.err.contains("write the number of tasks as `-n8`"),
        "{ended:?}"
    );
}
