//! Services with an address exist only while a MiniCluster can have pods: a range of addresses may be smaller than a
//! queue.

use crate::support::world::{CLUSTER, CONFIG, JOB, SERVICE, World, create, patch, with_sidecar};
use serde_json::{Value, json};

const LEAD: &str = "/api/v1/namespaces/work/services/hello-lead";

/// How many Services have an address.
fn addresses(world: &World) -> usize {
    let paths = world.server.paths("/api/v1/namespaces/work/services");
    let services = paths.iter().filter_map(|path| world.server.get(path));
    services.filter(|service| service["spec"]["clusterIP"] != "None").count()
}

fn suspend(world: &World, suspend: bool) {
    world.server.change(JOB, |job| {
        job["spec"]["suspend"] = json!(suspend);
        job["status"] = json!({});
    });
}

fn suspended(spec: &mut Value, suspend: bool) {
    spec["suspend"] = json!(suspend);
}

#[tokio::test]
async fn a_suspended_minicluster_takes_no_address() {
    let mut spec = with_sidecar();
    suspended(&mut spec, true);
    let world = World::reconciled(&spec).await;
    assert_eq!((addresses(&world), world.agent_config().network.lead_address), (0, None));
    world.edit(2, |spec| suspended(spec, false));
    let writes = world.writes().await;
    let services = create(SERVICE);
    let [first, config, job] = [&services, &patch(CONFIG), &patch(JOB)]
        .map(|write| writes.iter().position(|it| it == write).unwrap());
    assert!(first < config && config < job, "the Job is resumed last: {writes:?}");
    assert_eq!(addresses(&world), 3, "those of the lead and of the sidecar, with its alias");
    assert!(world.agent_config().network.lead_address.is_some());
    world.server.change(JOB, |job| job["status"] = json!({ "active": 4 }));
    world.edit(3, |spec| suspended(spec, true));
    world.reconcile().await.unwrap();
    assert_eq!(addresses(&world), 3, "its pods have not ended");
    suspend(&world, true);
    world.reconcile().await.unwrap();
    assert_eq!((addresses(&world), world.agent_config().network.lead_address), (0, None));
}

#[tokio::test]
async fn a_queued_minicluster_gets_its_address_with_its_turn() {
    let world = World::new(&json!({}));
    let labels = json!({ "kueue.x-k8s.io/queue-name": "team" });
    world.server.change(CLUSTER, |object| object["metadata"]["labels"] = labels);
    // The queue suspends the Job when it is created, which this server does not do.
    world.reconcile().await.unwrap();
    assert_eq!(addresses(&world), 0);
    suspend(&world, true);
    world.reconcile().await.unwrap();
    assert_eq!(addresses(&world), 0);
    suspend(&world, false);
    let writes = world.writes().await;
    assert_eq!(writes[..2], [create(LEAD), patch(CONFIG)], "{writes:?}");
    let lead = world.agent_config().network.lead_address.map(|it| json!(it.to_string()));
    assert_eq!(lead, Some(world.server.get(LEAD).unwrap()["spec"]["clusterIP"].clone()));
    suspend(&world, true);
    world.reconcile().await.unwrap();
    assert_eq!(addresses(&world), 0, "the queue has taken its turn away");
}
