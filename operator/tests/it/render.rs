//! `flux_api::render` shows the objects that the operator creates, although it does not call the code of a reconcile.

use crate::install::good_nodes;
use crate::prelude::*;
use flux_api::cluster::validate::validate;
use flux_api::crd::MiniCluster;
use flux_api::render::render;
use flux_contract::AgentConfig;
use flux_testkit::samples::{CERTIFICATE, defaults, images};

/// `objects` by kind and name, without the values that only a cluster has: the lead's address, certificates, tokens.
fn comparable(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let one = |mut object: Value| {
        if let Some(text) = object["data"]["agent.toml"].as_str() {
            let mut config = AgentConfig::from_toml(text).unwrap();
            config.network.lead_address = None;
            if let Some(rest) = &mut config.rest {
                rest.token_sha256.clear();
                rest.read_only_token_sha256 = None;
            }
            object["data"]["agent.toml"] = json!(config);
        }
        object.as_object_mut().unwrap().remove("stringData");
        (format!("{} {}", object["kind"], object["metadata"]["name"]), object)
    };
    objects.into_iter().map(one).collect()
}

fn rendered(world: &World) -> Vec<Value> {
    let object = world.server.get(CLUSTER).unwrap();
    let object: MiniCluster = serde_json::from_value(object).unwrap();
    render(&validate(&object, &defaults()).unwrap(), &images()).unwrap()
}

/// The bodies of all creations, without Events and the Secret of an API, whose name is that of a random token.
fn created(world: &World) -> impl Iterator<Item = Value> {
    world.server.bodies().into_iter().filter(|body| {
        let metadata = &body["metadata"];
        let is_token =
            body["kind"] == "Secret" && metadata["name"].to_string().contains("hello-rest-");
        body["kind"] != "Event" && metadata["resourceVersion"].is_null() && !is_token
    })
}

#[tokio::test]
async fn the_rendered_objects_are_those_that_the_operator_creates() {
    let sidecar = json!({ "image": "web", "name": "web", "runFlux": false, "ports": [80] });
    let runner = json!({ "image": "app", "command": "echo hello", "runFlux": true });
    let services = json!([{ "image": "db", "name": "db" }]);
    for (spec, count) in [
        (json!({}), 5),
        (json!({ "containers": [runner, sidecar], "services": services }), 8),
        (json!({ "scheduling": { "gang": "PodGroup" }, "flux": { "rest": {} } }), 7),
        (json!({ "suspend": true, "services": services, "flux": { "rest": {} } }), 4),
        (json!({ "flux": { "curveCert": CERTIFICATE, "container": { "install": "Copy" } } }), 5),
        (json!({ "flux": { "curveCertSecret": "mine" }, "interactive": true }), 4),
    ] {
        let world = World::new(&spec);
        world.server.set_release("v1.36.3", Some(good_nodes(1)));
        world.server.serve_kinds(&[("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup")]);
        world.reconcile().await.unwrap();
        // The pod of spec.services is created once there is a Job that runs.
        world.reconcile().await.unwrap();
        let rendered = rendered(&world);
        let has_content = |object: &Value| !object["stringData"].is_null();
        assert!(!rendered.iter().any(has_content), "a certificate is never rendered");
        let (created, rendered) = (comparable(created(&world)), comparable(rendered));
        assert_eq!(created, rendered, "{spec}");
        assert_eq!(created.len(), count, "{spec}");
    }
}
