//! Every command ends with 0 once the reader of its output has gone.

use crate::scene::Scene;

#[tokio::test]
async fn followed_logs_end_with_their_reader() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Running", "Running", None);
    let pod = scene.pod("hello", 0, "a", "running");
    scene.endpoint.logs.write(&format!("{pod}/hello"), &[b"one"]);
    let logs = scene.start(&["logs", "hello", "--follow"]);
    logs.prints("one\n").await;
    // No further line comes, which could not be written.
    logs.close_output();
    assert_eq!(logs.end().await.code, 0);
}

#[tokio::test]
async fn output_without_a_reader_is_no_failure() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Complete", "CommandSucceeded", Some(0));
    let pod = scene.pod("hello", 0, "a", "terminated");
    scene.endpoint.logs.write(&format!("{pod}/hello"), &[b"one"]);
    scene.endpoint.logs.end(&format!("{pod}/hello"));
    let spec = "{size: 1, containers: [{image: ubuntu}]}";
    let head = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: a}";
    let file = scene.file("a.yaml", &format!("{head}\nspec: {spec}\n"));
    for arguments in
        [&["list"][..], &["status", "hello"], &["logs", "hello"], &["render", &file], &["--help"]]
    {
        let process = scene.start(arguments);
        process.close_output();
        let ended = process.end().await;
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arguments:?}");
    }
}
