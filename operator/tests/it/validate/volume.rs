//! Volumes and their mounts.

use crate::validate::{container, faults, good, volume};
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
    insta::assert_yaml_snapshot!((&cluster.pod.volumes, &cluster.runner.container.mounts));
}

#[test]
fn volumes_that_cannot_be_mounted_are_refused() {
    for (change, path) in [
        (json!({}), ".path"),
        (json!({ "hostPath": "/a" }), ".path"),
        (json!({ "claimName": "a" }), ".path"),
        (json!({ "path": "a" }), ".path"),
        (json!({ "path": "/" }), ".path"),
        (json!({ "path": "/a/../b" }), ".path"),
        (json!({ "path": "/mnt/flux/" }), ".path"),
        (json!({ "path": "/mnt/flux/x" }), ".path"),
        (json!({ "path": "/opt/software" }), ".path"),
        (json!({ "path": "/a", "hostPath": "a" }), ".hostPath"),
        (json!({ "path": "/a", "hostPath": "/a", "claimName": "b" }), ""),
        (json!({ "path": "/a", "secretName": "A" }), ".secretName"),
        (json!({ "path": "/a", "emptyDirMedium": "tape" }), ".emptyDirMedium"),
        (json!({ "path": "/a", "emptyDirSizeLimit": "lots" }), ".emptyDirSizeLimit"),
        (json!({ "path": "/a", "hostPath": "/a", "emptyDirSizeLimit": "1" }), ".emptyDirSizeLimit"),
        (json!({ "path": "/a", "items": { "k": "p" } }), ".items"),
        (json!({ "path": "/a", "configMapName": "c", "items": { "k": "../p" } }), ".items[k]"),
        (json!({ "path": "/a", "csiDriverAttributes": { "k": "v" } }), ".csiDriverAttributes"),
    ] {
        let text = change.to_string();
        assert_eq!(
            faults(volume(change)),
            [format!("spec.containers[0].volumes[data]{path}")],
            "{text}"
        );
    }
}

#[test]
fn of_the_name_of_an_object_only_the_whole_has_a_limit() {
    let claim = |length: usize| volume(json!({ "path": "/a", "claimName": "a".repeat(length) }));
    let cluster = good(claim(253));
    assert_eq!(cluster.pod.volumes[0].name, "data");
    assert_eq!(faults(claim(254)), ["spec.containers[0].volumes[data].claimName"]);
}

#[test]
fn volume_names_are_labels_that_are_not_the_operators() {
    for name in ["Data", "a_b", "flux-view", "hello-agent", "hello-curve"] {
        let volumes = json!({ "volumes": { name: { "path": "/a" } } });
        assert_eq!(faults(container(volumes)), [format!("spec.containers[0].volumes[{name}]")]);
    }
}

#[test]
fn two_volumes_at_one_path_are_refused() {
    let volumes = json!({ "volumes": { "a": { "path": "/x" }, "b": { "path": "/x/" } } });
    assert_eq!(faults(container(volumes)), ["spec.containers[0].volumes[b].path"]);
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
    assert_eq!(cluster.pod.volumes.len(), 2);
    assert_eq!(cluster.runner.container.mounts.len(), 1);
    assert_eq!(cluster.sidecars[0].container.mounts.len(), 2);
    let change = both(json!({ "path": "/a", "claimName": "c" }), json!({ "path": "/a" }));
    assert_eq!(faults(change), ["spec.containers[1].volumes[data]"]);
}
