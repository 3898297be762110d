//! `version`: plugin and operator.

use crate::scene::Scene;
use flux_testkit::http::Reaction;
use serde_json::{Value, json};

#[tokio::test]
async fn releases_that_do_not_fit_are_named() {
    let scene = Scene::new().await;
    let plugin = env!("CARGO_PKG_VERSION");
    for (tag, remark) in [(plugin, ""), ("9.7.0", "do not fit"), ("9.7.0@sha256:00", "do not fit")]
    {
        let labels = json!({
            "app.kubernetes.io/name": "flux-operator", "app.kubernetes.io/component": "operator",
        });
        let pod =
            json!({ "containers": [{ "name": "it", "image": format!("host:5000/it:{tag}") }] });
        let deployment = json!({
            "metadata": { "name": "it", "namespace": "flux", "labels": labels },
            "spec": { "selector": {}, "template": { "spec": pod } },
        });
        scene.endpoint.server.put("/apis/apps/v1/deployments/it", deployment);
        let ended = scene.ends(&["version"]).await;
        let version = tag.split('@').next().unwrap();
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert!(ended.out.contains(&format!("operator {version} ")), "{}", ended.out);
        assert!(ended.err.contains(remark) && ended.err.is_empty() == remark.is_empty());
    }
    scene.endpoint.react("deployments", 1, Reaction::Refuse(403));
    let json = scene.ends(&["version", "-o", "json"]).await.out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["plugin"], plugin);
    assert!(json["remark"].as_str().unwrap().contains("cannot be listed"), "{json}");
    let requests = scene.endpoint.requests().len();
    assert_eq!(scene.ends(&["version", "--client"]).await.out, format!("plugin {plugin}\n"));
    assert_eq!(scene.endpoint.requests().len(), requests);
}
