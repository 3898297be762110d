//! Names that several MiniClusters may use: that of a shared headless Service, and the aliases of sidecars.

use crate::prelude::*;
use flux_operator::controller::{Error, reconcile_one};
use flux_testkit::collector::collect;
use kube::core::{ObjectMeta, PartialObjectMetaExt as _};

const TEAM: &str = "/api/v1/namespaces/work/services/team";
const WEB: &str = "/api/v1/namespaces/work/services/web";
const OTHER: &str = "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters/b";

fn in_team() -> Value {
    json!({ "network": { "headlessName": "team" } })
}

/// A world with the MiniClusters `hello` and `b` in one team.
fn two() -> World {
    let world = World::new(&in_team());
    let mut other = world.server.get(CLUSTER).unwrap();
    other["metadata"]["name"] = json!("b");
    other["metadata"]["uid"] = json!("b-uid");
    world.server.put(OTHER, other);
    world
}

async fn reconcile_other(world: &World) -> Result<(), Error> {
    let metadata = ObjectMeta { name: Some("b".to_owned()), ..marker().metadata };
    let marker = Arc::new(metadata.into_response_partial());
    reconcile_one(marker, Arc::clone(&world.context)).await.map(|_| ())
}

fn owners(world: &World) -> Vec<String> {
    let owners = world.server.get(TEAM).unwrap()["metadata"]["ownerReferences"].clone();
    let owner =
        |it: &Value| format!("{} {}", it["name"].as_str().unwrap(), it["controller"] == true);
    owners.as_array().unwrap().iter().map(owner).collect()
}

#[tokio::test]
async fn miniclusters_of_one_headless_name_share_its_service() {
    let world = two();
    world.reconcile().await.unwrap();
    reconcile_other(&world).await.unwrap();
    assert_eq!(owners(&world), ["hello false", "b false"]);
    let selector = json!({ "flux-framework.org/headless-name": "team" });
    assert_eq!(world.server.get(TEAM).unwrap()["spec"]["selector"], selector);
    for job in [JOB, "/apis/batch/v1/namespaces/work/jobs/b"] {
        let template = world.server.get(job).unwrap()["spec"]["template"].clone();
        assert_eq!(template["spec"]["subdomain"], "team");
        assert_eq!(template["metadata"]["labels"]["flux-framework.org/headless-name"], "team");
    }
    // An edit of one MiniCluster does not change the Service that another uses.
    world.edit(2, |spec| spec["flux"] = json!({ "minimalService": true }));
    world.reconcile().await.unwrap();
    reconcile_other(&world).await.unwrap();
    assert_eq!(world.server.get(TEAM).unwrap()["spec"]["selector"], selector);
    assert_eq!(world.writes().await, [""; 0]);
    world.server.remove(CLUSTER);
    world.server.with(|memory| collect(&mut memory.store));
    assert!(world.server.get(TEAM).is_some() && world.server.get(JOB).is_none());
    world.server.remove(OTHER);
    world.server.with(|memory| collect(&mut memory.store));
    assert!(world.server.get(TEAM).is_none());
}

#[tokio::test]
async fn a_shared_service_created_after_the_read_is_joined_later() {
    let world = two();
    reconcile_other(&world).await.unwrap();
    let shared = world.server.get(TEAM).unwrap();
    world.server.remove(TEAM);
    world.server.intrude(TEAM, shared);
    assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict");
    assert_eq!(world.events(), []);
    world.reconcile().await.unwrap();
    assert_eq!(owners(&world), ["b false", "hello false"]);
}

#[tokio::test]
async fn a_service_that_is_not_shared_keeps_its_owner() {
    let of_one = json!([{
        "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "name": "team", "uid": "team-uid",
        "controller": true,
    }]);
    for (owners, named) in [(of_one, "MiniCluster \"team\" alone"), (json!(null), "no MiniCluster")]
    {
        let world = World::new(&in_team());
        world.server.put(
            TEAM,
            json!({
                "apiVersion": "v1", "kind": "Service", "spec": {},
                "metadata": { "name": "team", "namespace": "work", "ownerReferences": owners,
                    "labels": { "app.kubernetes.io/managed-by": "flux-operator" } },
            }),
        );
        let before = world.server.get(TEAM);
        assert_eq!(world.reconcile().await.unwrap_err().category(), "NameTaken");
        let (_, reason, message) = world.condition("Progressing");
        assert_eq!(reason, "NameTaken");
        assert!(
            message.contains("spec.network.headlessName") && message.contains(named),
            "{message}"
        );
        assert_eq!(world.server.get(TEAM), before);
    }
}

#[tokio::test]
async fn a_refused_alias_is_reported_and_tried_again() {
    let world = World::new(&with_sidecar());
    world.server.refuse(WEB, 403, "exceeded quota: count/services");
    world.reconcile().await.unwrap();
    assert!(world.server.get(JOB).is_some());
    let (status, reason, message) = world.condition("Accepted");
    assert_eq!((&*status, &*reason), ("True", "ServiceRefused"));
    assert!(message.contains("exceeded quota") && message.contains("long name"), "{message}");
    world.server.accept_all();
    world.reconcile().await.unwrap();
    assert!(world.server.get(WEB).is_some());
    assert_eq!(world.condition("Accepted").1, "Accepted");
}
