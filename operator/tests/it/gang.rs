//! Pods that get nodes together or not at all.

use crate::support::world::{JOB, World, create, patch};
use serde_json::{Value, json};

const COSCHEDULING: (&str, &str, &str) = ("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup");
const VOLCANO: (&str, &str, &str) = ("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup");

/// Kinds of the same schedulers, and no PodGroups.
const OTHERS: [(&str, &str, &str); 2] = [
    ("scheduling.x-k8s.io/v1alpha1", "elasticquotas", "ElasticQuota"),
    ("scheduling.volcano.sh/v1beta1", "queues", "Queue"),
];

/// The PodGroup of the MiniCluster, of the API version of `kind`.
fn group(kind: (&str, &str, &str)) -> String {
    format!("/apis/{}/namespaces/work/podgroups/hello", kind.0)
}

fn gang(with: &Value) -> World {
    let mut spec = json!({ "scheduling": { "gang": "PodGroup" } });
    spec.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    World::new(&spec)
}

fn template(world: &World) -> Value {
    world.server.get(JOB).unwrap()["spec"]["template"].clone()
}

fn members(world: &World, kind: (&str, &str, &str)) -> Value {
    world.server.get(&group(kind)).unwrap()["spec"]["minMember"].clone()
}

#[tokio::test]
async fn pods_join_the_pod_group_of_scheduler_plugins_before_there_are_any() {
    let world = gang(&json!({ "minSize": 3, "pod": { "schedulerName": "packer" } }));
    world.server.serves(&[COSCHEDULING, VOLCANO]);
    let writes = world.writes().await;
    let place = |write: &String| writes.iter().position(|it| it == write).unwrap();
    assert!(place(&create(&group(COSCHEDULING))) < place(&create(JOB)), "{writes:?}");
    assert!(!writes.contains(&create(&group(VOLCANO))), "{writes:?}");
    assert_eq!(members(&world, COSCHEDULING), 3);
    let owner = &world.server.get(&group(COSCHEDULING)).unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("MiniCluster"), &json!("hello")));
    let template = template(&world);
    assert_eq!(template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "hello");
    assert_eq!(template["spec"]["schedulerName"], "packer");
}

#[tokio::test]
async fn pods_join_the_pod_group_of_volcano_and_get_its_scheduler() {
    for (served, scheduler, with) in [
        (vec![VOLCANO], "volcano", json!({})),
        (vec![VOLCANO], "packer", json!({ "pod": { "schedulerName": "packer" } })),
        (
            vec![COSCHEDULING, VOLCANO],
            "volcano",
            json!({ "pod": { "overlay": { "schedulerName": "volcano" } } }),
        ),
    ] {
        let world = gang(&with);
        world.server.serves(&served);
        world.reconcile().await.unwrap();
        assert_eq!(members(&world, VOLCANO), 4);
        let template = template(&world);
        assert_eq!(template["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "hello");
        assert_eq!(template["spec"]["schedulerName"], scheduler);
    }
}

#[tokio::test]
async fn members_follow_the_size_unless_the_smallest_one_is_given() {
    let world = gang(&json!({ "maxSize": 8 }));
    world.server.serves(&[COSCHEDULING]);
    world.reconcile().await.unwrap();
    assert_eq!(members(&world, COSCHEDULING), 4);
    world.edit(2, |spec| spec["size"] = json!(6));
    assert!(world.writes().await.contains(&patch(&group(COSCHEDULING))));
    assert_eq!(members(&world, COSCHEDULING), 6);
    world.edit(3, |spec| spec["minSize"] = json!(2));
    world.reconcile().await.unwrap();
    assert_eq!(members(&world, COSCHEDULING), 2);
    assert!(!world.writes().await.contains(&patch(&group(COSCHEDULING))), "nothing is due");
}

#[tokio::test]
async fn a_job_keeps_the_pod_group_that_it_was_made_with() {
    let world = gang(&json!({}));
    world.server.serves(&[VOLCANO]);
    world.reconcile().await.unwrap();
    world.server.serves(&[COSCHEDULING, VOLCANO]);
    world.server.remove(&group(VOLCANO));
    let world = world.with_another_operator();
    let writes = world.writes().await;
    assert!(writes.contains(&create(&group(VOLCANO))), "{writes:?}");
    assert!(!writes.contains(&create(&group(COSCHEDULING))), "{writes:?}");

    world.edit(2, |spec| spec["scheduling"]["gang"] = json!("None"));
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused");
    assert!(message.contains("spec.scheduling.gang"), "{message}");
}

#[tokio::test]
async fn without_a_scheduler_that_reads_pod_groups_nothing_is_started() {
    let message = |lacks: &str| {
        format!(
            "spec.scheduling.gang is PodGroup, and the API server has no PodGroups{lacks}: install \
             scheduler-plugins or Volcano, or set it to None; it is tried again"
        )
    };
    let none = message(" (scheduling.x-k8s.io or scheduling.volcano.sh)");
    let of_another = message(" of the scheduler \"volcano\" (scheduling.volcano.sh)");
    let volcano = json!({ "pod": { "schedulerName": "volcano" } });
    for (with, served, expected) in [
        (json!({}), &[][..], &none),
        (json!({}), &OTHERS, &none),
        (volcano, &[COSCHEDULING], &of_another),
    ] {
        let world = gang(&with);
        world.server.serves(served);
        world.reconcile().await.unwrap_err();
        assert!(world.server.get(JOB).is_none());
        let (status, reason, message) = world.condition("Progressing");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NoPodGroups"));
        assert_eq!(message, *expected);
        world.server.serves(&[COSCHEDULING, VOLCANO]);
        world.reconcile().await.unwrap();
        assert!(world.server.get(JOB).is_some());
    }
}

#[tokio::test]
async fn a_pod_group_of_somebody_else_is_left_alone() {
    let world = gang(&json!({}));
    world.server.serves(&[COSCHEDULING]);
    let other = json!({
        "apiVersion": COSCHEDULING.0, "kind": "PodGroup",
        "metadata": { "name": "hello", "namespace": "work" }, "spec": { "minMember": 9 },
    });
    world.server.put(&group(COSCHEDULING), other);
    world.reconcile().await.unwrap_err();
    assert_eq!(world.condition("Progressing").1, "NameTaken");
    assert_eq!(members(&world, COSCHEDULING), 9);
    assert!(world.server.get(JOB).is_none());
}
