//! `report`: what is in the archive, and what is not.

use crate::scene::Scene;
use flate2::read::GzDecoder;
use flux_testkit::http::Reaction::Refuse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use tar::Archive;

/// Runs `report hello`, and returns the files of the archive that it names, by their paths.
async fn report(scene: &Scene) -> BTreeMap<String, String> {
    let ended = scene.ends(&["report", "hello"]).await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    let name = ended.out.trim_end();
    let file = std::fs::File::open(scene.path(name)).unwrap();
    let mut archive = Archive::new(GzDecoder::new(file));
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let (stem, path) = path.split_once('/').unwrap();
        assert_eq!(format!("{stem}.tar.gz"), name);
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (path.to_owned(), String::from_utf8_lossy(&content).into_owned())
    });
    files.collect()
}

#[tokio::test]
async fn a_report_has_all_but_secrets() {
    let scene = Scene::hello("Running", "terminated").await;
    scene.pod("b", 0, "a", "running");
    let system = "flux-operator-system";
    let operator = json!({
        "metadata": { "name": "operator", "namespace": system, "labels": { "app.kubernetes.io/name": "flux-operator", "app.kubernetes.io/component": "operator" } },
        "status": { "containerStatuses": [{ "name": "operator", "state": {}, "restartCount": 1 }] },
    });
    let owner = json!([{ "kind": "MiniCluster", "name": "hello", "apiVersion": "", "uid": "" }]);
    let about = |name: &str| json!({ "metadata": {}, "involvedObject": { "name": name } });
    let put = |path: &str, object: Value| {
        scene.endpoint.server.put(&format!("/api/v1/namespaces/{path}"), object);
    };
    put(&format!("{system}/pods/operator"), operator);
    let curve = json!({ "name": "hello-curve", "ownerReferences": owner });
    put("default/secrets/a", json!({ "metadata": curve, "data": { "curve.cert": "c2VjcmV0" } }));
    put("default/secrets/b", json!({ "metadata": { "name": "b" }, "data": { "a": "b3RoZXI=" } }));
    let of_user = json!({ "name": "hello", "labels": { "app.kubernetes.io/name": "hello" } });
    put("default/configmaps/hello", json!({ "metadata": of_user, "data": { "a": "of the user" } }));
    let of_operator = json!({
        "name": "made", "labels": { "app.kubernetes.io/name": "hello", "app.kubernetes.io/managed-by": "flux-operator" },
    });
    put("default/configmaps/made", json!({ "metadata": of_operator }));
    let of_job = json!([{ "kind": "Job", "name": "hello", "apiVersion": "", "uid": "" }]);
    let of_job = json!({ "name": "of-job", "ownerReferences": of_job });
    put("default/configmaps/of-job", json!({ "metadata": of_job }));
    put("default/events/1", about("hello-0-gone"));
    put("default/events/2", about("hello-world"));
    put("default/events/3", about("hello-curve"));
    let logs = ["hello-0-a/hello", "operator/operator", "operator/operator/previous"];
    for log in logs {
        scene.endpoint.logs.write(log, &[b"one\xff"]);
    }
    scene.endpoint.react("GET /api/v1/pods", 9, Refuse(403));
    scene.endpoint.react("/services", 9, Refuse(403));
    let files = report(&scene).await;
    let all: String = files.values().map(String::as_str).collect();
    for secret in ["c2VjcmV0", "b3RoZXI=", "of the user", "hello-world", "b-0-a"] {
        assert!(!all.contains(secret), "{all}");
    }
    for (file, part) in [
        ("objects/miniclusters.yaml", "name: hello"),
        ("objects/secrets.yaml", "curve.cert: left out"),
        ("objects/configmaps.yaml", "name: made"),
        ("objects/configmaps.yaml", "name: of-job"),
        ("objects/events.yaml", "hello-0-gone"),
        ("objects/events.yaml", "hello-curve"),
        ("operator/pods.yaml", "name: operator"),
        ("logs/hello-0-a/hello.log", " one"),
        ("logs/operator/operator.previous.log", " one"),
        ("errors.txt", "objects/services.yaml: 403 refused by the test\n"),
    ] {
        assert!(files[file].contains(part), "{file}: {}", files[file]);
    }
}

#[tokio::test]
async fn a_report_needs_neither_programs_nor_rights() {
    let scene = Scene::new().await;
    scene.each_ends(&[("report hello", 1, "there is no MiniCluster")]).await;
    scene.minicluster("hello", "Running", "Running", None);
    for rank in [0, 1] {
        scene.pod("hello", rank, "a", "running");
    }
    // The simulated API server starts no programs.
    let errors = &report(&scene).await["errors.txt"];
    for path in
        ["agents/hello-0-a.json", "agents/hello-1-a.json", "flux/dmesg.txt", "flux/jobs--a.txt"]
    {
        assert!(errors.contains(&format!("{path}: 404 ")), "{errors}");
    }
    let scene_without_rights = Scene::new().await;
    scene_without_rights.endpoint.react("GET ", 99, Refuse(403));
    let files = report(&scene_without_rights).await;
    assert_eq!((files.len(), files["errors.txt"].lines().count()), (1, 9), "{files:?}");
}
