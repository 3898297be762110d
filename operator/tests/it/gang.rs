//! Pods that get nodes together or not at all.

use crate::support::world::{JOB, World, create};
use serde_json::json;

const COSCHEDULING: (&str, &str, &str) = ("scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup");
const VOLCANO: (&str, &str, &str) = ("scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup");
const NATIVE: (&str, &str, &str) = ("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup");
const ALPHA: (&str, &str, &str) = ("scheduling.k8s.io/v1alpha2", "podgroups", "PodGroup");

/// Kinds of the same schedulers, and no PodGroups.
const OTHERS: [(&str, &str, &str); 3] = [
    ("scheduling.k8s.io/v1beta1", "workloads", "Workload"),
    ("scheduling.x-k8s.io/v1alpha1", "elasticquotas", "ElasticQuota"),
    ("scheduling.volcano.sh/v1beta1", "queues", "Queue"),
];

/// The PodGroup of the MiniCluster, of the API version of `kind`.
fn group(kind: (&str, &str, &str)) -> String {
    format!("/apis/{}/namespaces/work/podgroups/hello", kind.0)
}

#[tokio::test]
async fn the_pod_group_exists_before_its_pods() {
    for (served, kind, gang) in [
        (&[COSCHEDULING, VOLCANO][..], COSCHEDULING, "PodGroup"),
        (&[VOLCANO], VOLCANO, "PodGroup"),
        (&[COSCHEDULING, VOLCANO, ALPHA, NATIVE], NATIVE, "Auto"),
        (&[COSCHEDULING, VOLCANO, ALPHA], ALPHA, "Native"),
    ] {
        let world = World::new(&json!({ "scheduling": { "gang": gang } }));
        world.server.serve_kinds(served);
        let writes = world.writes().await;
        let place = |write: &String| writes.iter().position(|it| it == write).unwrap();
        assert!(place(&create(&group(kind))) < place(&create(JOB)), "{writes:?}");
        assert_eq!(writes.iter().filter(|it| it.contains("podgroups")).count(), 1, "{writes:?}");
        let owner = &world.server.get(&group(kind)).unwrap()["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"]), (&json!("MiniCluster"), &json!("hello")));
        assert_eq!(world.writes().await, [""; 0], "nothing is due");
    }
}

#[tokio::test]
async fn without_pod_groups_nothing_is_started_unless_any_will_do() {
    for (gang, starts) in [("PodGroup", false), ("Auto", true)] {
        let world = World::new(&json!({ "scheduling": { "gang": gang } }));
        world.server.serve_kinds(&OTHERS);
        assert_eq!(world.reconcile().await.is_ok(), starts, "{gang}");
        assert_eq!(world.server.get(JOB).is_some(), starts, "{gang}");
        assert_eq!(world.condition("Progressing").1 == "NoPodGroups", !starts, "{gang}");
        // PodGroups that are served later concern only the next Job.
        world.server.serve_kinds(&[COSCHEDULING, VOLCANO, NATIVE]);
        let writes = world.with_another_operator().writes().await;
        assert!(world.server.get(JOB).is_some(), "{gang}");
        assert_eq!(writes.iter().any(|it| it.contains("podgroups")), !starts, "{writes:?}");
    }
}

#[tokio::test]
async fn a_job_keeps_the_pod_group_of_its_creation() {
    let world = World::new(&json!({ "scheduling": { "gang": "PodGroup" } }));
    world.server.serve_kinds(&[VOLCANO]);
    world.reconcile().await.unwrap();
    world.server.serve_kinds(&[COSCHEDULING, VOLCANO]);
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
async fn a_pod_group_of_somebody_else_is_left_alone() {
    let world = World::new(&json!({ "scheduling": { "gang": "PodGroup" } }));
    world.server.serve_kinds(&[COSCHEDULING]);
    let other = json!({
        "apiVersion": COSCHEDULING.0, "kind": "PodGroup",
        "metadata": { "name": "hello", "namespace": "work" }, "spec": { "minMember": 9 },
    });
    world.server.put(&group(COSCHEDULING), other);
    world.reconcile().await.unwrap_err();
    assert_eq!(world.condition("Progressing").1, "NameTaken");
    assert_eq!(world.server.get(&group(COSCHEDULING)).unwrap()["spec"]["minMember"], 9);
    assert!(world.server.get(JOB).is_none());
}
