//! How the agent and the view come into the pods: the requests, the built pods, and the status.

use crate::prelude::*;
use flux_api::crd::{InstallMethod, Installed};
use flux_contract::Install;
use serde::Deserialize;

fn node(number: usize) -> Value {
    json!({ "metadata": { "name": format!("n-{number}") }, "spec": {}, "status": { "nodeInfo": {
        "kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.3.7", "operatingSystem": "linux",
        "architecture": "amd64", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "",
        "machineID": "", "osImage": "", "systemUUID": "",
    } } })
}

pub(crate) fn good_nodes(count: usize) -> Vec<Value> {
    (0..count).map(node).collect()
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

/// A line of `install.txt`.
#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    spec: Value,
    /// The release of the API server; absent if the operator may not read it.
    release: Option<String>,
    /// Changes of good nodes; absent if the operator may not list the nodes.
    nodes: Option<Vec<Value>>,
    /// The number of good nodes before them.
    #[serde(default)]
    before: usize,
}

/// The install method that the operator chooses, with the reason.
async fn chosen(case: Case) -> String {
    let Case { spec, release, nodes, before } = case;
    let changed = |(number, change): (usize, Value)| {
        let mut node = node(before + number);
        json_patch::merge(&mut node, &change);
        node
    };
    let nodes = nodes.map(|it| it.into_iter().enumerate().map(changed));
    let nodes = nodes.map(|it| good_nodes(before).into_iter().chain(it).collect());
    let spec = if spec.is_null() { json!({}) } else { spec };
    let world = world_of(&spec, release.as_deref(), nodes);
    world.reconcile().await.unwrap();
    let (method, reason) = reported(&world);
    assert_eq!(copying(&world), if method == InstallMethod::Copy { 2 } else { 0 }, "{reason}");
    let is_mounted = world.agent_config().install == Install::Image;
    assert_eq!(is_mounted, method == InstallMethod::Image, "{reason}");
    format!("    {method:?}: {reason}")
}

/// `UPDATE_EXPECT=1 cargo test -p flux-operator --test it install` writes methods and reasons anew.
#[tokio::test(start_paused = true)]
async fn server_and_nodes_decide_the_install_method() {
    let mut table = Vec::new();
    for line in include_str!("install.txt").lines().filter(|line| !line.starts_with("    ")) {
        table.push(line.to_owned());
        if line.starts_with('{') {
            table.push(chosen(serde_saphyr::from_str(line).unwrap()).await);
        }
    }
    expect_test::expect_file!["install.txt"].assert_eq(&(table.join("\n") + "\n"));
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

#[tokio::test]
async fn a_job_that_copies_needs_no_nodes() {
    for (spec, requests) in [
        (json!({ "flux": { "container": { "install": "Copy" } } }), 0),
        (json!({ "pod": { "runtimeClassName": "kata" } }), 0),
        (json!({}), 1),
    ] {
        let world = world_of(&spec, Some("v1.36.3"), Some(good_nodes(1)));
        world.reconcile().await.unwrap();
        assert_eq!(world.server.requests("GET /api/v1/nodes"), requests, "{spec}");
    }
}
