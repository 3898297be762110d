//! How the agent and the view come into the pods: the requests, the built pods, and the status.

use crate::support::world::{CONFIG, JOB, World};
use flux_api::crd::{InstallMethod, Installed};
use flux_contract::Install;
use serde_json::{Value, json};
use std::time::Duration;

fn node(name: &str, kubelet: &str, runtime: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {}, "status": { "nodeInfo": {
        "kubeletVersion": kubelet, "containerRuntimeVersion": runtime, "operatingSystem": "linux",
        "architecture": "amd64", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "",
        "machineID": "", "osImage": "", "systemUUID": "",
    } } })
}

pub(crate) fn good_nodes(count: usize) -> Vec<Value> {
    (0..count).map(|n| node(&format!("n-{n}"), "v1.36.3", "containerd://2.3.7")).collect()
}

/// A world whose API server runs this release and has these nodes.
fn world_of(spec: &Value, release: Option<&str>, nodes: Option<Vec<Value>>) -> World {
    let world = World::new(spec);
    if let Some(release) = release {
        world.server.set_release(release, nodes);
    }
    world
}

fn reported(world: &World) -> (InstallMethod, String) {
    let Installed { method, reason } = world.status().install.unwrap();
    (method, reason)
}

/// Number of init containers in the Job: those that copy.
fn copying(world: &World) -> usize {
    let job = world.server.get(JOB).unwrap();
    job["spec"]["template"]["spec"]["initContainers"].as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn server_and_nodes_decide_the_install_method() {
    let old = vec![node("old", "v1.36.3", "containerd://1.7.28")];
    let (mounted, copied) = (InstallMethod::Image, InstallMethod::Copy);
    let new = Some("v1.36.3");
    for (release, nodes, method, why) in [
        (new, Some(good_nodes(3)), mounted, "the API server and all nodes have image volumes"),
        // The last one is on another page.
        (
            new,
            Some([good_nodes(249), old].concat()),
            copied,
            "node old runs containerd 1.7.28, image volumes need 2.1",
        ),
        (new, None, copied, "the operator may not list the nodes"),
        (new, Some(vec![]), copied, "there is no node yet"),
        (
            Some("v1.34.2"),
            Some(good_nodes(1)),
            copied,
            "the API server is of Kubernetes v1.34.2, image volumes need 1.35",
        ),
        (None, None, copied, "the operator may not read the API server's version"),
    ] {
        let world = world_of(&json!({}), release, nodes);
        world.reconcile().await.unwrap();
        assert_eq!(reported(&world), (method, why.to_owned()));
        assert_eq!(copying(&world), if method == copied { 2 } else { 0 }, "{why}");
        let install = world.agent_config().install;
        assert_eq!(install == Install::Image, method == mounted, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_read_for_new_jobs_every_five_minutes() {
    let world = world_of(&json!({}), Some("v1.36.3"), Some(good_nodes(4999)));
    for (minutes, pages) in [(0, 50), (4, 50), (2, 100)] {
        tokio::time::sleep(Duration::from_mins(minutes)).await;
        world.server.remove(JOB);
        world.server.remove(CONFIG);
        world.reconcile().await.unwrap();
        assert_eq!(reported(&world).0, InstallMethod::Image);
        world.reconcile().await.unwrap();
        assert_eq!(world.server.requests("GET /api/v1/nodes"), pages, "{minutes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_no_pod_gets_to_does_not_decide() {
    let tainted = |effect: &str| {
        let mut odd = node("odd", "v1.20.0", "");
        odd["spec"]["taints"] = json!([{ "key": "virtual", "value": "yes", "effect": effect }]);
        odd
    };
    let mut empty = node("empty", "", "");
    empty["status"] = json!({});
    let mut windows = node("windows", "v1.20.0", "docker://1.0");
    windows["status"]["nodeInfo"]["operatingSystem"] = json!("windows");
    let tolerant =
        json!({ "pod": { "tolerations": [{ "key": "virtual", "operator": "Exists" }] } });
    let overlay = json!({ "pod": { "overlay": tolerant["pod"] } });
    for (spec, odd, method) in [
        (json!({}), tainted("NoSchedule"), InstallMethod::Image),
        (json!({}), tainted("PreferNoSchedule"), InstallMethod::Copy),
        (tolerant, tainted("NoSchedule"), InstallMethod::Copy),
        (overlay, tainted("NoExecute"), InstallMethod::Copy),
        (json!({}), empty, InstallMethod::Image),
        (json!({}), windows, InstallMethod::Image),
    ] {
        let nodes = [vec![odd.clone()], good_nodes(2)].concat();
        let world = world_of(&spec, Some("v1.36.3"), Some(nodes));
        world.reconcile().await.unwrap();
        let (found, reason) = reported(&world);
        assert_eq!(found, method, "{odd}");
        assert!(method == InstallMethod::Image || reason.contains("node odd"), "{reason}");
    }
}

/// A Job's pod template cannot change, even if nodes and operator are replaced.
#[tokio::test(start_paused = true)]
async fn a_job_keeps_its_install_method_when_the_nodes_change() {
    let world = world_of(&json!({}), Some("v1.36.3"), None);
    world.reconcile().await.unwrap();
    let before = reported(&world);
    assert_eq!(before.0, InstallMethod::Copy);

    // Another operator, with another answer.
    let after = world.with_another_operator();
    after.server.set_release("v1.36.3", Some(good_nodes(1)));
    after.edit(2, |spec| spec["size"] = json!(2));
    after.reconcile().await.unwrap();
    assert_eq!(reported(&after), before);
    assert_eq!(copying(&after), 2);
    let job = after.server.get(JOB).unwrap();
    assert_eq!(job["spec"]["parallelism"], 2);
    let accepted = after.condition("Progressing");
    assert_ne!(accepted.1, "ChangeRefused", "{accepted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_configuration_is_created_again_for_the_same_pods() {
    let world = world_of(&json!({}), Some("v1.36.3"), Some(good_nodes(1)));
    world.reconcile().await.unwrap();
    let config = world.server.get(CONFIG).unwrap();
    world.server.remove(CONFIG);
    world.with_another_operator().reconcile().await.unwrap();
    assert_eq!(world.server.get(CONFIG).unwrap()["data"], config["data"]);
}
