//! Names, sizes and what a specification means as a whole.

use crate::validate::{defaults, faults, good, named, spec};
use flux_operator::cluster::validate::validate;
use flux_operator::crd::MiniCluster;
use serde_json::json;

#[test]
fn unset_max_size_means_size_and_unset_min_size_stays_open() {
    let cluster = good(json!({}));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 4, None));
    let cluster = good(json!({ "maxSize": 6, "minSize": 2 }));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 6, Some(2)));
    assert_eq!(cluster.flux.hosts.to_string(), "hello-[0-5]");
    assert_eq!(good(json!({ "maxSize": 4 })).max_size, 4);
}

#[test]
fn all_faults_are_reported_at_once_with_place_and_remedy() {
    let violations =
        validate(&named("Bad", spec(json!({ "size": -1, "tasks": -1 }))), &defaults()).unwrap_err();
    insta::assert_snapshot!(violations);
}

#[test]
fn the_mini_cluster_owns_what_is_made_for_it() {
    let owner = good(json!({})).owner;
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
        ("MiniCluster", "hello", "u-1")
    );
    assert_eq!(owner.api_version, "flux-framework.org/v1alpha2");
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

#[test]
fn the_headless_service_has_the_clusters_name_unless_given() {
    assert_eq!(good(json!({})).network.headless_name, "hello");
    let given = good(json!({ "network": { "headlessName": "flux-service" } }));
    assert_eq!(given.network.headless_name, "flux-service");
    let change = json!({ "network": { "headlessName": "hello-lead" } });
    assert_eq!(faults(change), ["spec.network.headlessName"]);
}

#[test]
fn the_archive_lies_on_a_volume() {
    assert_eq!(faults(json!({ "archive": { "path": "a.tar" } })), ["spec.archive.path"]);
    let with_volume = |at: &str| {
        let volumes = json!({ "state": { "path": at, "hostPath": "/x" } });
        let containers = json!([{ "volumes": volumes }]);
        json!({ "archive": { "path": "/state/a.tar" }, "containers": containers })
    };
    assert_eq!(good(with_volume("/state/")).archive.as_deref(), Some("/state/a.tar"));
    let on_no_volume = json!({ "archive": { "path": "/state/a.tar" } });
    for change in [on_no_volume, with_volume("/stat"), with_volume("/state/a.tar/b")] {
        assert_eq!(faults(change), ["spec.archive.path"], "its state would be gone with the pod");
    }
    let mounts =
        json!([{ "name": "hello", "volumeMounts": [{ "name": "x", "mountPath": "/state" }] }]);
    let volumes = json!([{ "name": "x", "emptyDir": {} }]);
    let overlay = json!({ "overlay": { "volumes": volumes, "containers": mounts } });
    good(json!({ "archive": { "path": "/state/a.tar" }, "pod": overlay }));
}

#[test]
fn the_hello_world_of_the_document_means_what_it_says() {
    let text = include_str!("../../../../examples/hello-world/minicluster.yaml");
    let cluster: MiniCluster = serde_saphyr::from_str(text).unwrap();
    cluster.validate_cel().unwrap();
    insta::assert_debug_snapshot!(validate(&cluster, &defaults()).unwrap());
}
