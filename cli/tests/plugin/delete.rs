//! `delete`: what it deletes, and what it waits for.

use crate::scene::Scene;
use jiff::Timestamp;
use serde_json::json;

#[tokio::test]
async fn all_are_deleted_before_one_is_waited_for() {
    let scene = Scene::new().await;
    for name in ["a", "b", "c"] {
        scene.minicluster(name, "Running", "Running", None);
    }
    let ended = scene.ends(&["delete", "a", "b", "nothing", "c"]).await;
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("there is no MiniCluster nothing"), "{}", ended.err);
    assert_eq!(ended.out.matches(" deleted\n").count(), 3, "{}", ended.out);
    let requests = scene.endpoint.requests();
    assert!(requests[..4].iter().all(|it| it.starts_with("DELETE ")), "{requests:?}");
    assert_eq!(scene.ends(&["delete", "nothing", "--ignore-not-found"]).await.code, 0);
}

#[tokio::test]
async fn options_select_what_is_deleted() {
    let scene = Scene::new().await;
    let now = Timestamp::now().to_string();
    for (name, state, created) in [
        ("old", "Running", "2000-01-01T00:00:00Z"),
        ("over", "Failed", &now),
        ("new", "Running", &now),
    ] {
        scene.minicluster(name, state, state, None);
        scene.change(name, |object| {
            object["metadata"]["creationTimestamp"] = json!(created);
            object["metadata"]["labels"] = json!({ "is": name });
        });
    }
    let file = "kind: MiniCluster\nmetadata: {name: new, namespace: default}\n---\nkind: Pod\n";
    let file = scene.file("new.yaml", file);
    for (options, expected) in [
        (&["--completed"][..], &["over"][..]),
        (&["--older=7d"], &["old"]),
        (&["--older=7d", "--completed"], &[]),
        (&["-l", "is=new"], &["new"]),
        (&["-f", &file], &["new"]),
        (&["--all"], &["new", "old", "over"]),
    ] {
        let words = [&["delete", "--dry-run=client", "-o", "name"], options].concat();
        let ended = scene.ends(&words).await;
        let names = ended.out.lines().map(|it| it.rsplit('/').next().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), expected, "{options:?}: {}", ended.err);
    }
    scene.each_ends(&[("delete over --dry-run=server", 0, "over deleted (dry run)")]).await;
    assert!(scene.get("over").is_some());
    let lines = [
        ("delete -f new.yaml -n lab", 1, "new is in the namespace default: use --namespace"),
        ("delete --completed --wait=false", 0, "flux-framework.org/over is being deleted\n"),
        ("delete", 2, ""),
        ("delete a --all", 2, ""),
        ("delete -l ", 2, ""),
        ("delete --older=long", 2, ""),
    ];
    scene.each_ends(&lines).await;
    assert!(scene.get("new").is_some());
}

#[tokio::test]
async fn a_silent_server_ends_a_deletion_with_a_timeout() {
    let scene = Scene::new().await;
    scene.endpoint.freeze(true);
    scene.each_ends(&[("delete hello --timeout=1s", 1, "1s")]).await;
}
