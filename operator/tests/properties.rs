//! What holds for every cluster.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use flux_operator::cluster::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::{cluster, documents, hello, metadata};

prop_compose! {
    /// A specification with many of its fields given at random.
    fn spec()(
        size in 1..40_i32,
        spare in 0..5_i32,
        tasks in 0..9_i32,
        backoff in proptest::option::of(0..3_i32),
        switches in proptest::collection::vec(any::<bool>(), 8),
        environment in proptest::collection::btree_map("[A-Z]{1,6}", "[a-z$ ]{0,6}", 0..6),
        labels in proptest::collection::btree_map("[a-z]{1,8}", "[a-z]{0,8}", 0..4),
        sidecars in 0..3_usize,
        services in 0..3_usize,
    ) -> Value {
        let mut containers = vec![json!({
            "image": "app", "command": "run", "runFlux": true, "environment": environment,
        })];
        for index in 0..sidecars {
            containers.push(json!({
                "image": "side", "name": format!("side-{index}"), "command": "wait",
                "runFlux": false, "noWrapEntrypoint": switches[0], "ports": [8000 + index],
            }));
        }
        let service = |index| json!({
            "image": "store", "name": format!("store-{index}"),
            "volumes": { "data": { "path": "/data" } },
        });
        let mut spec = json!({
            "services": (0..services).map(service).collect::<Vec<_>>(),
            "size": size,
            "maxSize": size + spare,
            "tasks": tasks,
            "interactive": switches[1],
            "jobLabels": labels,
            "pod": { "labels": labels, "hostIPC": switches[2] },
            "network": { "disableAffinity": switches[3] },
            "logging": { "quiet": switches[4] },
            "flux": {
                "minimalService": switches[5],
                "completeWorkers": switches[6],
                "container": { "disable": switches[7] },
            },
            "containers": containers,
        });
        if let Some(limit) = backoff {
            spec["backoffLimit"] = json!(limit);
        }
        spec
    }
}

fn of(spec: &Value) -> Cluster {
    cluster(&hello(spec))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn building_twice_gives_the_same_bytes(spec in spec()) {
        let text = |documents: Vec<Value>| serde_json::to_string(&documents).unwrap();
        prop_assert_eq!(text(documents(&of(&spec))), text(documents(&of(&spec))));
    }

    #[test]
    fn building_leaves_its_input_alone(spec in spec()) {
        let cluster = of(&spec);
        documents(&cluster);
        prop_assert_eq!(cluster, of(&spec));
    }

    #[test]
    fn every_object_is_owned_labelled_and_in_the_namespace(spec in spec()) {
        for metadata in metadata(&of(&spec)) {
            let owners = metadata.owner_references.unwrap();
            prop_assert_eq!(owners.len(), 1);
            prop_assert_eq!(&owners[0].name, "hello");
            prop_assert_eq!(owners[0].controller, Some(true));
            let labels = metadata.labels.unwrap();
            prop_assert_eq!(&labels["app.kubernetes.io/managed-by"], "flux-operator");
            prop_assert_eq!(&labels["app.kubernetes.io/name"], "hello");
            prop_assert_eq!(metadata.namespace.as_deref(), Some("work"));
        }
    }

    #[test]
    fn no_two_objects_of_a_kind_have_one_name(spec in spec()) {
        let documents = documents(&of(&spec));
        let names = documents.iter().map(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
        let names: BTreeSet<String> = names.collect();
        prop_assert_eq!(names.len(), documents.len());
    }

    #[test]
    fn autoscalers_count_brokers_only(spec in spec()) {
        for document in documents(&of(&spec)).iter().filter(|it| it["kind"] == "Pod") {
            prop_assert!(document["metadata"]["labels"]["hpa-selector"].is_null());
        }
    }

    #[test]
    fn completions_and_parallelism_are_the_size(spec in spec()) {
        let documents = documents(&of(&spec));
        let job = documents.last().unwrap();
        prop_assert_eq!(&job["spec"]["completions"], &spec["size"]);
        prop_assert_eq!(&job["spec"]["parallelism"], &spec["size"]);
    }

    #[test]
    fn every_mount_has_its_volume(spec in spec()) {
        let documents = documents(&of(&spec));
        let job = &documents.last().unwrap()["spec"]["template"]["spec"];
        let services = documents.iter().filter(|it| it["kind"] == "Pod").map(|it| &it["spec"]);
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for pod in services.chain([job]) {
            let volumes = array(&pod["volumes"]);
            let volumes: Vec<&Value> = volumes.iter().map(|volume| &volume["name"]).collect();
            for container in [array(&pod["containers"]), array(&pod["initContainers"])].concat() {
                for mount in array(&container["volumeMounts"]) {
                    prop_assert!(volumes.contains(&&mount["name"]), "{mount}");
                }
            }
        }
    }
}
