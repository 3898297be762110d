//! Pods that get nodes together or not at all.

use crate::support::world::{JOB, World, create, patch};
use serde_json::{Value, json};

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

fn gang(with: &Value) -> World {
    scheduled(&json!({ "gang": "PodGroup" }), with)
}

fn scheduled(scheduling: &Value, with: &Value) -> World {
    let mut spec = json!({ "scheduling": scheduling });
    spec.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    World::new(&spec)
}

fn template(world: &World) -> Value {
    world.server.get(JOB).unwrap()["spec"]["template"].clone()
}

/// How many pods the PodGroup asks for.
fn members(world: &World, kind: (&str, &str, &str)) -> Value {
    let spec = world.server.get(&group(kind)).unwrap()["spec"].clone();
    let native = spec["schedulingPolicy"]["gang"]["minCount"].clone();
    if native.is_null() { spec["minMember"].clone() } else { native }
}

#[tokio::test]
async fn the_pod_group_of_the_scheduler_exists_before_its_pods() {
    let packer = json!({ "minSize": 3, "pod": { "schedulerName": "packer" } });
    let volcano = json!({ "minSize": 3, "pod": { "overlay": { "schedulerName": "volcano" } } });
    for (served, kind, scheduler, with) in [
        (&[COSCHEDULING, VOLCANO][..], COSCHEDULING, "packer", &packer),
        (&[VOLCANO], VOLCANO, "volcano", &json!({ "minSize": 3 })),
        (&[VOLCANO], VOLCANO, "packer", &packer),
        (&[COSCHEDULING, VOLCANO], VOLCANO, "volcano", &volcano),
    ] {
        let world = gang(with);
        world.server.serve_kinds(served);
        let writes = world.writes().await;
        let place = |write: &String| writes.iter().position(|it| it == write).unwrap();
        assert!(place(&create(&group(kind))) < place(&create(JOB)), "{writes:?}");
        assert_eq!(writes.iter().filter(|it| it.contains("podgroups")).count(), 1, "{writes:?}");
        assert_eq!(members(&world, kind), 3);
        let owner = &world.server.get(&group(kind)).unwrap()["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["name"]), (&json!("MiniCluster"), &json!("hello")));
        let template = template(&world);
        let metadata = &template["metadata"];
        let joined = [
            &metadata["labels"]["scheduling.x-k8s.io/pod-group"],
            &metadata["annotations"]["scheduling.k8s.io/group-name"],
        ];
        assert_eq!(*joined[usize::from(kind == VOLCANO)], "hello");
        assert_eq!(template["spec"]["schedulerName"], scheduler);
    }
}

#[tokio::test]
async fn members_follow_the_size_unless_the_smallest_one_is_given() {
    let world = gang(&json!({ "maxSize": 8 }));
    world.server.serve_kinds(&[COSCHEDULING]);
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
async fn a_job_keeps_the_pod_group_of_its_creation() {
    let world = gang(&json!({}));
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
async fn without_a_scheduler_that_reads_pod_groups_nothing_is_started() {
    let install = "install scheduler-plugins or Volcano";
    let none = format!(" (scheduling.x-k8s.io or scheduling.volcano.sh): {install}");
    let of_another = format!(" of the scheduler \"volcano\" (scheduling.volcano.sh): {install}");
    let gate = " (scheduling.k8s.io): switch on the feature gate GenericWorkload of Kubernetes 1.37, and serve the API \
                by --runtime-config=scheduling.k8s.io/v1beta1=true";
    let volcano = json!({ "pod": { "schedulerName": "volcano" } });
    for (gang, with, served, lacks) in [
        ("PodGroup", json!({}), &[][..], none.as_str()),
        ("PodGroup", json!({}), &OTHERS, &none),
        ("PodGroup", json!({}), &[NATIVE, ALPHA], &none),
        ("PodGroup", volcano, &[COSCHEDULING], &of_another),
        ("Native", json!({}), &[COSCHEDULING, VOLCANO], gate),
    ] {
        let world = scheduled(&json!({ "gang": gang }), &with);
        world.server.serve_kinds(served);
        world.reconcile().await.unwrap_err();
        assert!(world.server.get(JOB).is_none());
        let (status, reason, message) = world.condition("Progressing");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NoPodGroups"));
        let expected = format!(
            "spec.scheduling.gang is {gang}, and the API server has no PodGroups{lacks}, or set it to None; it is \
             tried again"
        );
        assert_eq!(message, expected);
        world.server.serve_kinds(&[COSCHEDULING, VOLCANO, NATIVE]);
        world.reconcile().await.unwrap();
        assert!(world.server.get(JOB).is_some());
    }
}

#[tokio::test]
async fn the_native_pod_group_exists_before_its_pods() {
    for (served, kind) in [
        (&[COSCHEDULING, VOLCANO, ALPHA, NATIVE][..], NATIVE),
        (&[COSCHEDULING, VOLCANO, ALPHA], ALPHA),
    ] {
        let scheduling = json!({ "gang": "Native", "topology": "example.com/rack" });
        let pod = json!({ "schedulerName": "fluence", "overlay": { "priorityClassName": "high" } });
        let world = scheduled(&scheduling, &json!({ "minSize": 3, "pod": pod }));
        world.server.serve_kinds(served);
        let writes = world.writes().await;
        let place = |write: &String| writes.iter().position(|it| it == write).unwrap();
        assert!(place(&create(&group(kind))) < place(&create(JOB)), "{writes:?}");
        let made = world.server.get(&group(kind)).unwrap();
        let expected = json!({
            "schedulingPolicy": { "gang": { "minCount": 3 } },
            "schedulingConstraints": { "topology": [{ "key": "example.com/rack" }] },
            "priorityClassName": "high",
        });
        assert_eq!(made["spec"], expected);
        assert_eq!(made["metadata"]["ownerReferences"][0]["name"], "hello");
        let pod = template(&world)["spec"].clone();
        assert_eq!(pod["schedulingGroup"], json!({ "podGroupName": "hello" }));
        assert_eq!(pod["schedulerName"], "fluence");
        assert_eq!(world.condition("Accepted").1, "Accepted");
    }
}

#[tokio::test]
async fn auto_takes_the_first_kind_of_pod_group_served() {
    let volcano = json!({ "pod": { "schedulerName": "volcano" } });
    for (with, served, taken) in [
        (json!({}), &[COSCHEDULING, VOLCANO, NATIVE][..], Some(NATIVE)),
        (json!({}), &[COSCHEDULING, VOLCANO], Some(COSCHEDULING)),
        (json!({}), &[VOLCANO], Some(VOLCANO)),
        (json!({}), &OTHERS, None),
        (volcano.clone(), &[COSCHEDULING, VOLCANO, NATIVE], Some(VOLCANO)),
        (volcano, &[COSCHEDULING, NATIVE], None),
    ] {
        let scheduling = json!({ "gang": "Auto", "topology": "example.com/rack" });
        let world = scheduled(&scheduling, &with);
        world.server.serve_kinds(served);
        let writes = world.writes().await;
        let groups = [COSCHEDULING, VOLCANO, NATIVE].map(|kind| create(&group(kind)));
        let made: Vec<_> = writes.iter().filter(|it| groups.contains(it)).cloned().collect();
        let expected: Vec<_> = taken.map(|kind| create(&group(kind))).into_iter().collect();
        assert_eq!(made, expected, "{served:?}");
        assert!(writes.contains(&create(JOB)), "{writes:?}");
        let (_, reason, message) = world.condition("Accepted");
        let told = |field: &str| message.contains(&format!("{field} ("));
        assert_eq!(told("spec.scheduling.gang"), taken.is_none(), "{message}");
        assert_eq!(told("spec.scheduling.topology"), taken != Some(NATIVE), "{message}");
        assert_eq!(reason == "FieldsNotActedOn", taken != Some(NATIVE), "{message}");
        // PodGroups that are served later concern only the next Job.
        world.server.serve_kinds(&[COSCHEDULING, VOLCANO, NATIVE]);
        let world = world.with_another_operator();
        let writes = world.writes().await;
        assert!(!groups.iter().any(|group| writes.contains(group)), "{writes:?}");
        assert_eq!(world.condition("Accepted").2, message);
    }
}

#[tokio::test]
async fn members_of_the_native_pod_group_follow_the_size() {
    for (kind, followed) in [(NATIVE, 6), (ALPHA, 4)] {
        let world = scheduled(&json!({ "gang": "Auto" }), &json!({ "maxSize": 8 }));
        world.server.serve_kinds(&[kind]);
        world.reconcile().await.unwrap();
        world.edit(2, |spec| spec["size"] = json!(6));
        let writes = world.writes().await;
        assert_eq!(writes.contains(&patch(&group(kind))), followed == 6, "{writes:?}");
        assert_eq!(members(&world, kind), followed);
        // A deleted PodGroup is created again with the present size.
        world.server.remove(&group(kind));
        world.reconcile().await.unwrap();
        assert_eq!(members(&world, kind), 6);
    }
}

#[tokio::test]
async fn a_dropped_topology_is_reported_and_not_requested_again() {
    let scheduling = json!({ "gang": "Native", "topology": "example.com/rack" });
    let world = scheduled(&scheduling, &json!({ "maxSize": 8 }));
    world.server.serve_kinds(&[NATIVE]);
    world.reconcile().await.unwrap();
    let leave_out = |made: &mut Value| {
        made["spec"].as_object_mut().unwrap().remove("schedulingConstraints").unwrap();
    };
    world.server.change(&group(NATIVE), leave_out);
    assert_eq!(world.writes().await.iter().filter(|it| it.contains("podgroups")).count(), 0);
    let (status, reason, message) = world.condition("Accepted");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "FieldsNotActedOn"));
    assert!(message.contains("TopologyAwareWorkloadScheduling"), "{message}");
    world.edit(2, |spec| spec["size"] = json!(6));
    world.reconcile().await.unwrap();
    assert_eq!(members(&world, NATIVE), 6);
    world.edit(3, |spec| spec["scheduling"]["topology"] = json!("example.com/zone"));
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused");
    assert!(message.contains("spec.scheduling.topology"), "{message}");
}

#[tokio::test]
async fn a_pod_group_of_somebody_else_is_left_alone() {
    let world = gang(&json!({}));
    world.server.serve_kinds(&[COSCHEDULING]);
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
