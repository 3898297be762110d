//! The names of MiniClusters on the command line.

use crate::scene::Scene;
use serde_json::json;

#[tokio::test]
async fn other_kinds_and_forms_are_refused_without_a_request() {
    let scene = Scene::new().await;
    let names =
        ["hello#x", "hello?dryRun=All", "?x", "pod/hello", "job.batch/hello", "a/b", "../x"];
    for name in names.into_iter().chain(["Hello", ""]) {
        let ended = scene.ends(&["delete", name]).await;
        assert_eq!(ended.code, 2, "{name}: {}", ended.err);
        assert!(ended.err.contains("minicluster/NAME") || ended.err.contains("flux list"));
    }
    assert_eq!(scene.endpoint.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_may_have_its_kind_or_be_the_newest() {
    let scene = Scene::new().await;
    for (name, created) in [("hello", "2026-01-02T00:00:00Z"), ("older", "2026-01-01T00:00:00Z")] {
        scene.minicluster(name, "Running", "Running", None);
        scene.change(name, |object| object["metadata"]["creationTimestamp"] = json!(created));
    }
    let full = "minicluster.flux-framework.org/hello";
    for name in ["hello", "mc/hello", "minicluster/hello", "miniclusters/hello", full, "@last"] {
        let ended = scene.ends(&["delete", "--dry-run", name]).await;
        assert_eq!(ended.out, format!("{full} deleted (dry run)\n"), "{name}: {}", ended.err);
    }
    scene.ends(&["delete", "miniclusters.flux-framework.org/hello", "@last"]).await;
    assert!(scene.get("hello").is_none() && scene.get("older").is_some());
}

#[tokio::test]
async fn files_are_copied_from_a_minicluster_of_any_form() {
    let scene = Scene::hello("Running", "running").await;
    for (number, place) in ["hello", "@last[0]", "minicluster/hello"].iter().enumerate() {
        let line = format!("cp {place}:/x .");
        // The simulated API server starts no programs.
        scene.each_ends(&[(&line, 1, "run /mnt/flux/bin/flux-agent connect")]).await;
        assert_eq!(scene.endpoint.count("/hello-0-a/exec?"), number + 1);
    }
    scene.each_ends(&[("cp a[x]:/y .", 1, "NAME[RANK]"), ("cp ./a:b a/b:c", 1, "in a pod")]).await;
}

#[tokio::test]
async fn states_and_fields_of_a_newer_operator_are_shown() {
    let scene = Scene::new().await;
    scene.minicluster("hello", "Hibernating", "Asleep", None);
    scene.change("hello", |object| object["spec"]["newer"] = json!(1));
    let commands = ["list hello", "status hello", "explain hello"];
    scene.each_ends(&commands.map(|line| (line, 0, "Hibernating"))).await;
    scene.each_ends(&[("status hello -o json", 0, r#""newer": 1"#)]).await;
    // A value that no type of this plugin has.
    scene.change("hello", |object| object["spec"]["flux"] = json!({ "install": "Teleport" }));
    scene.each_ends(&[("list", 0, "hello"), ("delete hello", 0, "deleted")]).await;
    assert!(scene.get("hello").is_none());
}
