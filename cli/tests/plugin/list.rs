//! `list`, `status`, `suspend` and `resume`: as `kubectl get` and for several MiniClusters.

use crate::scene::Scene;
use flux_testkit::http::Reaction;
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
    for (words, count) in [
        (&["list", "--state=failed"], 0),
        (&["status", "b"], 0),
        (&["list", "--show-managed-fields"], 1),
    ] {
        let yaml = scene.ends(&[&words[..], &["-o", "yaml"]].concat()).await.out;
        assert!(yaml.contains("CommandFailed"), "{yaml}");
        assert_eq!(yaml.matches("managedFields").count(), count, "{yaml}");
    }
    let lines = [
        ("list a nothing", 1, "no MiniCluster nothing"),
        ("list -o jsonpath={.a", 2, "a { has no }"),
        ("status a -o wide", 2, "wide is a format of `kubectl flux list` only"),
        ("status a -o name", 0, "minicluster.flux-framework.org/a\n"),
    ];
    scene.each_ends(&lines).await;
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
async fn a_watched_status_survives_refused_lists() {
    let scene = two().await;
    scene.endpoint.react("/miniclusters?", 1, Reaction::Refuse(500));
    scene.endpoint.react("/pods?", 1, Reaction::Refuse(503));
    let watch = scene.start(&["status", "a", "-w"]);
    scene.endpoint.await_requests("/pods?", 1).await;
    scene.minicluster("a", "Failed", "CommandFailed", Some(1));
    let ended = watch.end().await;
    assert!(ended.code == 0 && ended.out.contains("a Failed"), "{ended:?}");
}

#[tokio::test]
async fn several_miniclusters_are_named_at_once() {
    let scene = two().await;
    let shown = scene.ends(&["status", "a", "b", "nothing"]).await;
    assert!(shown.out.contains("a Running") && shown.out.contains("b Failed"), "{shown:?}");
    assert_eq!((shown.code, shown.err.matches("no MiniCluster nothing").count()), (1, 1));
    let list = scene.ends(&["status", "a", "b", "-o", "jsonpath={.items[*].metadata.name}"]).await;
    assert_eq!(list.out, "a b\n", "{}", list.err);
    let scaled = scene.ends(&["scale", "a", "b", "--replicas=5"]).await.out;
    for name in ["a", "b"] {
        assert!(scaled.contains(&format!("scaled {name} from 2 to 5 pods\n")), "{scaled}");
    }
    assert_eq!(scene.get("b").unwrap()["spec"]["size"], 5);
    for (command, expected) in [("suspend", true), ("resume", false)] {
        assert_eq!(scene.ends(&[command, "a", "b"]).await.code, 0);
        for name in ["a", "b"] {
            assert_eq!(scene.get(name).unwrap()["spec"]["suspend"], expected);
        }
    }
}
