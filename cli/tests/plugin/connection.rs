//! Errors of the API server and of the way to it.

use crate::scene::Scene;
use flux_testkit::http::Reaction;

#[tokio::test]
async fn errors_are_one_line_with_the_server() {
    let scene = Scene::new().await;
    scene.endpoint.react("miniclusters", 1, Reaction::Refuse(403));
    let refused = scene.ends(&["list"]).await;
    assert_eq!(refused.err, "kubectl flux: list MiniClusters: refused by the test\n");
    scene.endpoint.react("miniclusters", 1, Reaction::Refuse(403));
    let watched = scene.ends(&["wait", "hello"]).await;
    assert_eq!(watched.err, "kubectl flux: watch the run: refused by the test\n");
    let ended = scene.ends(&["list", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!((ended.code, ended.err.lines().count()), (1, 1), "{}", ended.err);
    assert!(ended.err.contains("http://127.0.0.1:1/ (context test)"), "{}", ended.err);
    assert_eq!(ended.err.matches("refused").count(), 1, "{}", ended.err);
}
