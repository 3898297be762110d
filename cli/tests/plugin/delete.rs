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
    let ended = scene.ends(&["delete", "over", "--dry-run=server"]).await;
    assert!(ended.out.contains("over deleted (dry run)") && scene.get("over").is_some());
    let ended = scene.ends(&["delete", "--completed", "--wait=false"]).await;
    assert_eq!(ended.out, "minicluster.flux-framework.org/over is being deleted\n");
    for wrong in [
        &["delete"][..],
        &["delete", "a", "--all"],
        &["delete", "-l", ""],
        &["delete", "--older=long"],
    ] {
        assert_eq!(scene.ends(wrong).await.code, 2, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_silent_server_ends_a_deletion_with_a_timeout() {
    let scene = Scene::new().await;
    scene.endpoint.freeze(true);
    let ended = scene.ends(&["delete", "hello", "--timeout=1s"]).await;
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("1s"), "{}", ended.err);
}
