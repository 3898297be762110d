//! `list`, `status`, `suspend` and `resume`: as `kubectl get` and for several MiniClusters.

use crate::scene::Scene;
use nix::sys::signal::Signal;
use serde_json::json;

/// A cluster with the MiniClusters `a`, which runs, and the older `b`, which has failed.
async fn two() -> Scene {
    let scene = Scene::new().await;
    scene.minicluster("a", "Running", "Running", None);
    scene.minicluster("b", "Failed", "CommandFailed", Some(7));
    scene.change("b", |object| {
        object["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
        object["metadata"]["managedFields"] = json!([{ "manager": "kubectl" }]);
    });
    scene
}

#[tokio::test]
async fn options_and_formats_are_those_of_kubectl() {
    let scene = two().await;
    let full = |name| format!("minicluster.flux-framework.org/{name}\n");
    for (words, expected) in [
        (&["-o", "name"][..], full("a") + &full("b")),
        (&["b", "a", "-o", "name"], full("b") + &full("a")),
        (&["--state", "failed", "-o", "name"], full("b")),
        (&["--field-selector", "metadata.name=a", "-o", "name"], full("a")),
        (&["--sort-by={.metadata.creationTimestamp}", "-o", "name"], full("b") + &full("a")),
        (&["-o", "jsonpath={.items[*].status.state}"], "Running Failed\n".to_owned()),
        (&["b", "-o", "jsonpath={.status.exitCode}"], "7\n".to_owned()),
        (
            &["-o", "custom-columns=N:.metadata.name,E:status.exitCode"],
            "N  E\na  <none>\nb  7\n".to_owned(),
        ),
    ] {
        let ended = scene.ends(&[&["list"], words].concat()).await;
        assert_eq!(ended.out, expected, "{words:?}: {}", ended.err);
    }
    let row = scene.ends(&["list", "b", "--no-headers"]).await.out;
    assert!(row.starts_with("b ") && row.contains("Failed"), "{row}");
    for (option, count) in [("--state=failed", 0), ("--show-managed-fields", 1)] {
        let yaml = scene.ends(&["list", "-o", "yaml", option]).await.out;
        assert_eq!(yaml.matches("managedFields").count(), count, "{yaml}");
    }
    assert_eq!(scene.ends(&["list", "a", "nothing"]).await.code, 1);
    assert_eq!(scene.ends(&["list", "-o", "jsonpath={.a"]).await.code, 2);
}

#[tokio::test]
async fn changes_are_watched() {
    let scene = two().await;
    for words in [&["list", "-w"][..], &["status", "a", "-w"]] {
        scene.minicluster("a", "Running", "Running", None);
        let watch = scene.start(words);
        watch.prints("Running").await;
        scene.endpoint.await_requests("watch=true", 1).await;
        scene.minicluster("a", "Ending", "Ending", None);
        watch.prints("Ending").await;
        watch.signal(Signal::SIGINT);
        watch.end().await;
    }
}

#[tokio::test]
async fn several_miniclusters_are_named_at_once() {
    let scene = two().await;
    let shown = scene.ends(&["status", "a", "b", "nothing"]).await;
    assert!(shown.out.contains("a Running") && shown.out.contains("b Failed"), "{shown:?}");
    assert_eq!((shown.code, shown.err.matches("no MiniCluster nothing").count()), (1, 1));
    let list = scene.ends(&["status", "a", "b", "-o", "jsonpath={.items[*].metadata.name}"]).await;
    assert_eq!(list.out, "a b\n", "{}", list.err);
    assert_eq!(
        scene.ends(&["scale", "a", "b", "--replicas=5"]).await.out.matches("2 to 5").count(),
        2
    );
    assert_eq!(scene.get("b").unwrap()["spec"]["size"], 5);
    for (command, expected) in [("suspend", true), ("resume", false)] {
        assert_eq!(scene.ends(&[command, "a", "b"]).await.code, 0);
        for name in ["a", "b"] {
            assert_eq!(scene.get(name).unwrap()["spec"]["suspend"], expected);
        }
    }
}
