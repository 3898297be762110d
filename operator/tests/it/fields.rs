//! What single fields do to the pods.

use crate::support::{built, cluster, config, documents, hello, pod_spec};
use flux_contract::{Bootstrap, MUNGE_MOUNT, Workload, labels};
use flux_operator::controller::build::secret;
use k8s_openapi::api::core::v1::{Container, Volume};
use serde_json::{Value, json};

fn variable(container: &Container, name: &str) -> Vec<Option<String>> {
    let all = container.env.iter().flatten().filter(|variable| variable.name == name);
    all.map(|variable| variable.value.clone()).collect()
}

#[test]
fn the_munge_key_is_mounted_into_the_runner_only_and_the_agent_reads_so() {
    let spec = json!({ "flux": { "mungeSecret": "keys" }, "containers": [
        { "image": "app", "command": "a", "runFlux": true },
        { "image": "b", "name": "b", "command": "b", "runFlux": false },
    ] });
    let pod = pod_spec(&spec);
    let mounts = |container: &Container| {
        container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == MUNGE_MOUNT)
    };
    assert!(mounts(&pod.containers[0]) && !mounts(&pod.containers[1]));
    let volume = |volume: &Volume| volume.name == "hello-munge";
    let volume = pod.volumes.unwrap().into_iter().find(volume).unwrap().secret.unwrap();
    assert_eq!(volume.secret_name.as_deref(), Some("keys"));
    assert_eq!(volume.items.unwrap()[0].key, "munge.key");
    assert!(config(&spec).munge && !config(&json!({})).munge);
}

#[test]
fn cores_are_a_variable_of_the_container_and_one_unless_given() {
    let container = |extra: Value| {
        let mut container = json!({ "image": "app", "command": "a" });
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        pod_spec(&json!({ "containers": [container] })).containers.remove(0)
    };
    let cores = |extra| variable(&container(extra), "FLUX_CORES");
    assert_eq!(cores(json!({})), [Some("1".to_owned())]);
    assert_eq!(cores(json!({ "cores": 4 })), [Some("4".to_owned())]);
    let own = json!({ "cores": 4, "environment": { "FLUX_CORES": "own" } });
    assert_eq!(cores(own), [Some("own".to_owned())]);
}

#[test]
fn a_bursted_broker_gets_port_and_hosts_of_its_lead() {
    let lead = json!({ "address": "203.0.113.7", "name": "root", "size": 2, "port": 30093 });
    let bursting = json!({ "leadBroker": lead, "clusters": [{ "name": "hello", "size": 4 }] });
    let config = config(&json!({ "flux": { "bursting": bursting } }));
    let Bootstrap::Child { lead, lead_port, hosts } = config.network.bootstrap else {
        panic!("not a child: {:?}", config.network);
    };
    assert_eq!((lead.as_str(), lead_port), ("203.0.113.7", 30093));
    assert_eq!(hosts.to_string(), "root-[0-1],hello-[0-3]");
}

#[test]
fn another_mount_path_reaches_every_object() {
    let spec = json!({ "flux": { "container": { "mountPath": "/opt/flux" } } });
    for document in documents(&cluster(&hello(&spec))) {
        assert!(!document.to_string().contains("/mnt/flux"), "{document}");
    }
    assert!(config(&spec).layout.local_uri().contains("/opt/flux/"));
}

#[test]
fn ports_of_the_runner_make_no_service() {
    let spec = json!({ "containers": [{ "image": "app", "command": "a", "ports": [8080] }] });
    let (services, _) = built(&cluster(&hello(&spec)));
    assert!(services.sidecars.is_empty() && services.aliases.is_empty());
}

#[test]
fn pod_resources_are_an_overhead_where_a_runtime_class_asks_for_one() {
    for class in [None, Some("kata")] {
        let pod = json!({ "resources": { "cpu": "250m" }, "runtimeClassName": class });
        let spec = pod_spec(&json!({ "pod": pod }));
        let requests = spec.resources.and_then(|it| it.requests);
        let (used, other) =
            if class.is_some() { (spec.overhead, requests) } else { (requests, spec.overhead) };
        assert_eq!((used.unwrap()["cpu"].0.as_str(), other), ("250m", None));
    }
}

#[test]
fn the_operators_labels_win_over_the_users() {
    let theirs = json!({
        "namespace": "mine", "app": "mine", "app.kubernetes.io/name": "mine",
        "app.kubernetes.io/managed-by": "mine", "hpa-selector": "mine", "job-index": "mine",
        "team": "physics",
    });
    let (_, desired) = built(&cluster(&hello(&json!({ "pod": { "labels": theirs } }))));
    let template = desired.job.spec.unwrap().template.metadata.unwrap();
    // Each lead has its own job-index, and gets it when it is there.
    let expected = json!({
        "namespace": "work", "app": labels::APP_VALUE, "app.kubernetes.io/name": "hello",
        "app.kubernetes.io/managed-by": labels::APP_VALUE, "hpa-selector": "hello",
        "team": "physics",
    });
    assert_eq!(json!(template.labels), expected);
}

#[test]
fn a_certificate_may_be_in_a_secret_of_the_user() {
    let spec = json!({ "flux": { "curveCertSecret": "mine" } });
    let secrets = pod_spec(&spec).volumes.unwrap().into_iter().filter_map(|it| it.secret);
    assert_eq!(secrets.filter_map(|it| it.secret_name).collect::<Vec<_>>(), ["mine"]);
    assert!(secret(&cluster(&hello(&spec)), getrandom::fill).unwrap().is_none());
}

#[test]
fn diagnostics_take_the_place_of_the_command() {
    let spec = json!({ "containers": [{ "image": "a", "command": "b", "diagnostics": true }] });
    assert_eq!(config(&spec).workload, Workload::Diagnostics {});
}

#[test]
fn an_architecture_selects_nodes_by_any_of_its_names() {
    for (name, label) in
        [("arm", "arm64"), ("aarch64", "arm64"), ("arm64", "arm64"), ("x86_64", "amd64")]
    {
        let spec = json!({ "flux": { "arch": name }, "pod": { "nodeSelector": { "a": "b" } } });
        let selector = pod_spec(&spec).node_selector.unwrap();
        assert_eq!(selector["kubernetes.io/arch"], label);
        assert_eq!(selector["a"], "b");
    }
}

#[test]
fn the_arm_view_is_taken_where_no_image_is_named() {
    let view =
        |flux: Value| cluster(&hello(&json!({ "flux": flux }))).flux.view.container.image.unwrap();
    assert_eq!(view(json!({ "arch": "arm" })), "registry.example/default-arm-view:3");
    assert_eq!(view(json!({ "arch": "amd64" })), "registry.example/default-view:3");
    assert_eq!(view(json!({ "arch": "arm", "container": { "image": "mine" } })), "mine");
}

#[test]
fn capabilities_that_are_added_reach_the_container_and_the_user_of_flux() {
    let spec = json!({ "containers": [{
        "image": "app", "command": "a", "securityContext": { "capabilities": { "add": ["IPC_LOCK"] } },
    }] });
    assert_eq!(config(&spec).user.capabilities, ["IPC_LOCK"]);
    let context = pod_spec(&spec).containers[0].security_context.clone().unwrap();
    assert_eq!(context.capabilities.unwrap().add.unwrap(), ["IPC_LOCK"]);
}

#[test]
fn an_overlay_is_merged_by_the_names_in_its_lists() {
    let pod = pod_spec(&json!({ "pod": { "overlay": {
        "priorityClassName": "high",
        "containers": [{ "name": "hello", "env": [{ "name": "A", "value": "b" }], "tty": true }],
        "volumes": [{ "name": "more", "emptyDir": {} }],
    } } }));
    assert_eq!(pod.priority_class_name.as_deref(), Some("high"));
    assert_eq!(pod.containers.len(), 1);
    assert_eq!(
        (pod.containers[0].image.as_deref(), pod.containers[0].tty),
        (Some("app"), Some(true))
    );
    assert_eq!(variable(&pod.containers[0], "A"), [Some("b".to_owned())]);
    assert_eq!(variable(&pod.containers[0], "FLUX_CORES").len(), 1);
    assert!(pod.volumes.unwrap().iter().any(|volume| volume.name == "more"));
}
