//! Volumes and their mounts.

use crate::validate::{container, good};
use serde_json::{Value, json};

#[test]
fn every_source_of_a_volume_is_understood() {
    let volumes = json!({
        "a": { "path": "/a", "hostPath": "/host", "readOnly": true },
        "b": { "path": "/b", "configMapName": "other-name", "items": { "k": "p/q" } },
        "c": { "path": "/c", "claimName": "claim" },
        "d": { "path": "/d", "secretName": "secret" },
        "e": { "emptyDir": true, "emptyDirMedium": "memory", "emptyDirSizeLimit": "64Gi" },
        "f": { "path": "/f", "csiDriver": "csi.test", "csiDriverAttributes": { "k": "v" } },
        "g": { "path": "/g" },
    });
    let cluster = good(container(json!({ "volumes": volumes })));
    insta::assert_yaml_snapshot!((
        &cluster.pod.spec.volumes,
        &cluster.runner.container.volume_mounts
    ));
}

#[test]
fn the_same_volume_in_two_containers_is_one_and_each_has_its_own_mounts() {
    let both = |runner: Value, sidecar: Value| {
        json!({ "containers": [
            { "runFlux": true, "volumes": { "data": runner } },
            { "name": "b", "volumes": { "data": sidecar, "own": { "path": "/own" } } },
        ] })
    };
    let cluster = good(both(
        json!({ "path": "/a", "claimName": "c", "readOnly": true }),
        json!({ "path": "/b", "claimName": "c" }),
    ));
    assert_eq!(cluster.pod.spec.volumes.unwrap().len(), 2);
    assert_eq!(cluster.runner.container.volume_mounts.unwrap().len(), 1);
    assert_eq!(cluster.sidecars[0].container.volume_mounts.as_ref().unwrap().len(), 2);
}
