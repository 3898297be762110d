//! Every command ends with 0 once the reader of its output has gone.

use crate::scene::Scene;

#[tokio::test]
async fn what_is_followed_ends_with_its_reader() {
    let scene = Scene::hello("Running", "running").await;
    for arguments in [&["logs", "hello", "--follow"][..], &["list", "-w"]] {
        let process = scene.start(arguments);
        process.prints("\n").await;
        // No further line comes, which could not be written.
        process.close_output();
        assert_eq!(process.end().await.code, 0);
    }
}

#[tokio::test]
async fn output_without_a_reader_is_no_failure() {
    let scene = Scene::hello("Complete", "terminated").await;
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
