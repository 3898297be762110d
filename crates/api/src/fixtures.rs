//! MiniClusters, for tests.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests give valid values")]

use crate::cluster::validate::Defaults;
use crate::crd::{Install, MiniCluster};
use crate::objects::Images;
use serde_json::json;

/// Defaults of an operator, which all differ from those of the product.
pub fn defaults() -> Defaults {
    Defaults {
        view_image: "view".to_owned(),
        arm_view_image: "arm-view".to_owned(),
        install: Install::Auto,
        cluster_domain: None,
    }
}

/// A MiniCluster that runs `echo hello` on four pods, with the fields of `spec`.
pub fn mini_cluster(spec: &serde_json::Value) -> MiniCluster {
    let mut object = json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": "hello", "namespace": "apps", "uid": "u-1", "generation": 1 },
        "spec": { "size": 4, "containers": [{ "image": "app", "command": "echo hello" }] },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    with_images(&mut object["spec"]);
    // YAML, as users write it: in a field for texts, `true` is one.
    serde_saphyr::from_str(&object.to_string()).unwrap()
}

/// Gives each container of `spec` that names no image one.
pub fn with_images(spec: &mut serde_json::Value) {
    for list in ["containers", "services"] {
        let containers = spec.get_mut(list).and_then(|it| it.as_array_mut());
        for container in containers.into_iter().flatten() {
            container.as_object_mut().unwrap().entry("image").or_insert_with(|| "app".into());
        }
    }
}

/// Images of an operator whose agent is `agent`.
pub fn images(agent: &str) -> Images {
    Images { agent: agent.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() }
}
