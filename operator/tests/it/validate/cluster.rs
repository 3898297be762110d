//! Names, sizes and what a specification means as a whole.

use crate::support::{UID, defaults, hello};
use crate::validate::good;
use flux_operator::cluster::validate::validate;
use serde_json::json;

#[test]
fn unset_max_size_means_size_and_unset_min_size_stays_open() {
    let cluster = good(json!({}));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 4, None));
    let cluster = good(json!({ "maxSize": 6, "minSize": 2 }));
    assert_eq!((cluster.size, cluster.max_size, cluster.min_size), (4, 6, Some(2)));
    assert_eq!(cluster.flux.bootstrap.hosts().to_string(), "hello-[0-5]");
    assert_eq!(good(json!({ "maxSize": 4 })).max_size, 4);
}

#[test]
fn the_mini_cluster_owns_what_is_made_for_it() {
    let owner = good(json!({})).owner;
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
        ("MiniCluster", "hello", UID)
    );
    assert_eq!(owner.api_version, "flux-framework.org/v1alpha2");
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

#[test]
fn the_headless_service_has_the_clusters_name_unless_given() {
    assert_eq!(good(json!({})).headless_name, "hello");
    let given = good(json!({ "network": { "headlessName": "flux-service" } }));
    assert_eq!(given.headless_name, "flux-service");
}

#[test]
fn the_archive_lies_on_a_volume() {
    let volumes = json!({ "state": { "path": "/state/", "hostPath": "/x" } });
    let mounted =
        json!({ "archive": { "path": "/state/a.tar" }, "containers": [{ "volumes": volumes }] });
    assert_eq!(good(mounted).archive.as_deref(), Some("/state/a.tar"));
    let mounts =
        json!([{ "name": "hello", "volumeMounts": [{ "name": "x", "mountPath": "/state" }] }]);
    let volumes = json!([{ "name": "x", "emptyDir": {} }]);
    let overlay = json!({ "overlay": { "volumes": volumes, "containers": mounts } });
    good(json!({ "archive": { "path": "/state/a.tar" }, "pod": overlay }));
}

#[test]
fn a_name_that_would_not_fit_is_refused_by_both_and_all_faults_are_reported_at_once() {
    for name in ["a".repeat(53), "0a".to_owned(), "A".to_owned(), "a.b".to_owned()] {
        let mut object = hello(&json!({ "size": -1 }));
        object.metadata.name = Some(name.clone());
        assert!(object.validate_cel().is_err(), "{name}");
        let faults = validate(&object, &defaults()).unwrap_err().0;
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, ["metadata.name", "spec.size"], "{name}");
    }
}
