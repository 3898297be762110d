//! Tests of [`decide`]: a specification and live objects in, writes and reports out.

use super::*;
use crate::controller::error::{NameConflict, ObjectName};
use crate::controller::fixtures::{
    at, cluster, delete_failed_job, ended_job, images, job, pod, ready_lead, running,
};
use crate::controller::job_ext::LATE_START_ANNOTATION;
use flux_api::cluster::QUEUE_LABEL;
use flux_contract::token::fingerprint;
use k8s_openapi::api::batch::v1::JobStatus;
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A specification with a pod of `spec.services`, and with a sidecar that has a port.
fn everything() -> Value {
    json!({
        "services": [{ "image": "db", "name": "db" }],
        "containers": [
            { "image": "app", "command": "echo hello", "runFlux": true },
            { "image": "web", "name": "web", "runFlux": false, "ports": [80] },
        ],
    })
}

fn decided(spec: &Value, generation: i64, live: &Observed) -> Plan {
    let cluster = cluster(spec);
    let draw = |bytes: &mut [u8]| {
        bytes.fill(7);
        Ok(())
    };
    let images = &images("agent");
    let live = &live.clone().classified(Some(&cluster), generation, &images.agent, &at(1_000));
    let image_volumes = Err("not checked".to_owned());
    decide(
        &DecisionInput {
            rest_token: Some(Redacted::new("secret-token".to_owned())),
            generation,
            now: at(1_000),
            expires: false,
            cluster: Ok(cluster),
            answer: Answer::None,
            images,
            image_volumes,
            draw,
        },
        live,
    )
}

fn lines(plan: &Plan) -> Vec<String> {
    fn line<K: Resource<DynamicType = ()> + Serialize>(change: &Change<K>) -> Option<String> {
        let kind = K::kind(&());
        match change {
            Change::Keep => None,
            Change::Create(object) => Some(format!("create {kind} {}", object.name_any())),
            Change::Patch { name, patch } => Some(format!("patch {kind} {name} {patch}")),
            Change::Delete { name, uid, .. } => {
                Some(format!("delete {kind} {name} {}", uid.as_deref().unwrap_or_default()))
            }
        }
    }
    let writes = &plan.writes;
    let mut lines: Vec<String> = writes.services.iter().filter_map(line).collect();
    let secrets = writes.secrets.iter().map(|secret| secret.expose().name_any());
    lines.extend(secrets.map(|name| format!("create Secret {name}")));
    lines.extend(line(&writes.services_pod));
    lines.extend(line(&writes.config_map));
    lines.extend(writes.exposed.iter().chain(&writes.aliases).filter_map(line));
    lines.extend(line(&writes.job));
    lines
}

fn written(plan: &Plan) -> Vec<String> {
    let kind_and_name = |line: &String| line.split(' ').take(3).collect::<Vec<_>>().join(" ");
    lines(plan).iter().map(kind_and_name).collect()
}

fn patch_of<K>(change: &Change<K>) -> Value {
    if let Change::Patch { patch, .. } = change { patch.clone() } else { Value::Null }
}

fn job_patch(plan: &Plan) -> Value {
    patch_of(&plan.writes.job)
}

fn config_patch(plan: &Plan) -> Value {
    patch_of(&plan.writes.config_map)
}

/// Creates the objects of `plan` in `live`, as the API server would.
fn create(plan: &Plan, live: &mut Observed) {
    fn created<K: Resource<DynamicType = ()> + Clone>(change: &Change<K>) -> Option<K> {
        let Change::Create(object) = change else { return None };
        let mut object = object.as_ref().clone();
        object.meta_mut().uid = Some(format!("{}-uid", K::kind(&()).to_lowercase()));
        object.meta_mut().resource_version = Some("5".to_owned());
        Some(object)
    }
    let writes = &plan.writes;
    let services = writes.services.iter().chain(&writes.exposed).chain(&writes.aliases);
    for mut service in services.filter_map(created) {
        service.spec.as_mut().unwrap().cluster_ip.get_or_insert_with(|| "10.0.0.1".to_owned());
        live.services.insert(service.name_any(), service);
    }
    live.services_pod = created(&writes.services_pod).or_else(|| live.services_pod.take());
    let config_map = writes.config_map.clone().with_lead_address([10, 0, 0, 1].into());
    live.config_map = created(&config_map).or_else(|| live.config_map.take());
    live.job = created(&writes.job).or_else(|| live.job.take());
}

/// The live objects after `spec` was applied as generation 1.
fn settled(spec: &Value) -> Observed {
    let mut live = Observed::default();
    for _ in 0..2 {
        create(&decided(spec, 1, &live), &mut live);
    }
    live
}

/// The same after the Job has ended.
fn finished(spec: &Value) -> Observed {
    let mut live = settled(spec);
    live.job.as_mut().unwrap().status = ended_job("Failed", "BackoffLimitExceeded").status;
    live
}

/// The same after somebody has deleted the Job whose end was recorded.
fn deleted(spec: &Value) -> Observed {
    let mut live = finished(spec);
    delete_failed_job(&mut live);
    live
}

/// The time to the next reconcile.
fn next(live: &Observed, plan: &Plan) -> Option<Duration> {
    let cluster = cluster(&json!({}));
    next_reconcile(&live.clone().classified(Some(&cluster), 1, "agent", &at(1_000)), plan)
}

fn taken(kind: &str, name: &str) -> NameConflict {
    NameConflict::Taken(ObjectName { kind: kind.to_owned(), name: name.to_owned() })
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn the_api_token_is_created_once_in_its_own_secret() {
    let spec = json!({ "flux": { "rest": {} } });
    let mut live = Observed::default();
    let plan = decided(&spec, 1, &live);
    let secret = format!("create Secret hello-rest-{:.10}", fingerprint("secret-token"));
    let made = written(&plan);
    assert!(made.contains(&secret) && made.contains(&"create Service hello-rest".to_owned()));
    assert!(!format!("{plan:?}").contains("secret-token"));
    create(&plan, &mut live);
    assert_eq!(written(&decided(&spec, 1, &live)), nothing());
    // An earlier attempt, which failed before it created the Job, has created the Secret.
    live.job = None;
    assert!(!written(&decided(&spec, 1, &live)).contains(&secret));
    // An instance that runs without an API gets none.
    let added = decided(&spec, 2, &settled(&json!({})));
    assert_eq!((lines(&added), added.refused), (nothing(), vec!["spec.flux.rest".to_owned()]));
}

#[test]
fn settled_foreign_and_finished_objects_are_not_written() {
    for spec in [json!({}), everything(), json!({ "interactive": true, "maxSize": 9 })] {
        assert_eq!(lines(&decided(&spec, 1, &settled(&spec))), nothing());
    }
    for made in [finished as fn(&Value) -> Observed, deleted] {
        let mut over = made(&json!({}));
        over.services.retain(|name, _| name == "hello");
        assert_eq!(lines(&decided(&json!({}), 1, &over)), nothing());
    }
    let mut foreign = settled(&everything());
    foreign.job.as_mut().unwrap().metadata.annotations = None;
    let plan = decided(&json!({ "size": 2 }), 2, &foreign);
    assert_eq!(lines(&plan), nothing());
    assert_eq!(next(&foreign, &plan), Some(POLL_INTERVAL));
}

#[test]
fn a_new_size_patches_parallelism_and_completions() {
    let live = settled(&json!({ "maxSize": 6 }));
    let plan = decided(&json!({ "maxSize": 6, "size": 2 }), 2, &live);
    assert_eq!(written(&plan), ["patch ConfigMap hello-agent", "patch Job hello"]);
    let expected = json!({
        "metadata": {
            "uid": "job-uid", "resourceVersion": "5",
            "annotations": { "flux-framework.org/generation": "2" },
        },
        "spec": { "parallelism": 2, "completions": 2 },
    });
    assert_eq!(job_patch(&plan), expected);
    assert_eq!(plan.maximum_size, Some(6));
    let patch = config_patch(&plan);
    let text = patch["data"]["agent.toml"].as_str().unwrap();
    assert!(text.contains("hello-[0-5]") && text.contains("quorum = 2"), "{text}");
    let more = decided(&json!({ "maxSize": 6, "size": 6 }), 2, &live);
    assert_eq!(written(&more), written(&plan));
}

#[test]
fn a_partly_admitted_job_keeps_its_pods_and_flags() {
    let labels = json!({ QUEUE_LABEL: "team" });
    let spec = json!({ "size": 3, "minSize": 2, "tasks": 0, "jobLabels": labels });
    let mut live = settled(&spec);
    let admit = |live: &mut Observed, suspend: bool, size: i32| {
        let job = live.job.as_mut().unwrap().spec.as_mut().unwrap();
        (job.suspend, job.parallelism, job.completions) = (Some(suspend), Some(size), Some(size));
    };
    let numbers = |text: &str| {
        let nodes = text.split("flags = ").nth(1).unwrap().split(']').next().unwrap();
        (text.contains("quorum = 2"), nodes.contains('2'), nodes.contains('3'))
    };
    let map = live.config_map.as_ref().unwrap();
    let all = numbers(&map.data.as_ref().unwrap()["agent.toml"]);
    assert_eq!(all, (false, false, true), "the number of pods is not known yet");
    admit(&mut live, true, 3);
    assert_eq!(lines(&decided(&spec, 1, &live)), nothing());
    for (size, expected) in [(2, (true, true, false)), (3, (true, false, true))] {
        admit(&mut live, false, size);
        let plan = decided(&spec, 1, &live);
        assert_eq!(
            (written(&plan), &plan.refused),
            (vec!["patch ConfigMap hello-agent".to_owned()], &nothing())
        );
        assert_eq!(numbers(config_patch(&plan)["data"]["agent.toml"].as_str().unwrap()), expected);
    }
    // The queue would have to admit another size.
    let more = json!({ "size": 4, "minSize": 2, "maxSize": 4, "tasks": 0, "jobLabels": labels });
    let refused = decided(&more, 2, &live).refused;
    assert!(refused[0].starts_with("spec.size: the queue team has admitted 3 pods"), "{refused:?}");
}

#[test]
fn changes_that_a_running_instance_cannot_take_are_refused() {
    let other = json!({ "containers": [{ "image": "other", "command": "echo hello" }], "size": 9 });
    let plan = decided(&other, 2, &settled(&json!({})));
    let size = "spec.size: Flux was started with 4 hosts, not with 9; a suspended MiniCluster can have others";
    assert_eq!(plan.refused, [size, "spec.containers[0].image"]);
    assert_eq!((lines(&plan), plan.maximum_size), (nothing(), Some(4)));
    // The other changes are written, and a change that is undone is no longer reported.
    let image = json!({ "containers": [{ "image": "other", "command": "echo hello" }], "size": 2 });
    let plan = decided(&image, 2, &settled(&json!({})));
    let patch = job_patch(&plan);
    assert_eq!(patch["spec"], json!({ "parallelism": 2, "completions": 2 }));
    assert!(patch["metadata"]["annotations"].is_null() && plan.refused.len() == 1, "{patch}");
    assert_eq!(decided(&json!({}), 3, &settled(&json!({}))).refused, nothing());
    let (one, two) = (json!({ "containers": [everything()["containers"][0]] }), everything());
    for (live, asked) in [(&one, &two), (&two, &one)] {
        let refused = decided(asked, 2, &settled(live)).refused;
        assert_eq!(refused[0], "spec.containers[1]");
    }
    let mut other = everything();
    other["services"][0]["image"] = json!("other");
    let plan = decided(&other, 2, &settled(&everything()));
    assert_eq!(
        (lines(&plan), plan.refused),
        (nothing(), vec!["spec.services[0].image".to_owned()])
    );
}

#[test]
fn an_archived_command_is_noted_for_the_next_interactive_lead() {
    let volumes = json!({ "state": { "path": "/state", "claimName": "state" } });
    let containers = json!([{ "image": "app", "command": "echo hello", "volumes": volumes }]);
    let archive = json!({ "path": "/state/a.tgz" });
    for (spec, notes) in [
        (json!({ "interactive": true, "archive": archive, "containers": containers }), true),
        (json!({ "interactive": true, "containers": containers }), false),
        (json!({ "archive": archive, "containers": containers }), false),
    ] {
        let mut live = settled(&spec);
        assert!(matches!(decided(&spec, 1, &live).writes.config_map, Change::Keep));
        live.pods.lead = Some(ready_lead());
        let patch = config_patch(&decided(&spec, 1, &live));
        assert_eq!(patch.to_string().contains("submitted = true"), notes, "{patch}");
    }
}

#[test]
fn a_late_instance_ends_with_the_cause() {
    let spec = json!({ "startDeadlineSeconds": 60 });
    let mut live = settled(&spec);
    live.job.as_mut().unwrap().status =
        Some(JobStatus { start_time: Some(at(960)), ..JobStatus::default() });
    let plan = decided(&spec, 1, &live);
    assert_eq!(lines(&plan), nothing());
    assert_eq!(next(&live, &plan), Some(Duration::from_secs(10)));
    live.job.as_mut().unwrap().status.as_mut().unwrap().start_time = Some(at(940));
    let patch = job_patch(&decided(&spec, 1, &live));
    assert_eq!(patch["spec"], json!({ "activeDeadlineSeconds": 1 }));
    let cause = patch["metadata"]["annotations"][LATE_START_ANNOTATION].as_str().unwrap();
    assert!(cause.contains("the 60 seconds of spec.startDeadlineSeconds"), "{cause}");
}

#[test]
fn a_new_run_gets_its_own_secret_and_run_key() {
    let mut live = deleted(&json!({}));
    let data = live.config_map.as_mut().unwrap().data.as_mut().unwrap();
    data.insert("run-before".to_owned(), String::new());
    let plan = decided(&json!({ "tasks": 3 }), 2, &live);
    let secret = cluster(&json!({ "tasks": 3 })).curve_secret();
    assert_ne!(secret, cluster(&json!({})).curve_secret());
    let secret = format!("create Secret {secret}");
    assert_eq!(written(&plan), [&secret, "patch ConfigMap hello-agent", "create Job hello"]);
    let patch = config_patch(&plan);
    assert_eq!(patch["data"].get("run-before"), Some(&Value::Null));
}

#[test]
fn a_missing_object_is_created_again_alone() {
    let mut live = settled(&everything());
    live.config_map = None;
    assert_eq!(lines(&decided(&everything(), 1, &live)), ["create ConfigMap hello-agent"]);
    // Agents of another release may not be able to read a new configuration.
    live.job.as_mut().unwrap().spec.as_mut().unwrap().template.spec = None;
    assert_eq!(lines(&decided(&everything(), 1, &live)), nothing());
    let added = decided(&json!({ "services": everything()["services"] }), 2, &settled(&json!({})));
    assert_eq!(written(&added), ["create Pod hello-services", "patch Job hello"]);
    assert_eq!(added.refused, nothing());
    let mut live = settled(&everything());
    live.services.remove("hello-web");
    live.services_pod = None;
    let expected = ["create Pod hello-services", "create Service hello-web"];
    assert_eq!(lines(&decided(&everything(), 1, &live)), expected);
}

#[test]
fn a_name_conflict_stops_the_objects_that_need_the_name() {
    let map = ObjectName { kind: "ConfigMap".to_owned(), name: "hello-agent".to_owned() };
    for (place, category) in [
        (taken("Job", "hello"), "NameTaken"),
        (NameConflict::Predecessor(map), "WaitingForDeletion"),
    ] {
        let live = Observed { conflicts: vec![place], ..Observed::default() };
        let plan = decided(&everything(), 1, &live);
        assert_eq!((lines(&plan), plan.obstacle.unwrap().category()), (nothing(), category));
    }
    let service_conflicts = vec![taken("Service", "hello")];
    let live = Observed { service_conflicts: service_conflicts.clone(), ..Observed::default() };
    assert_eq!(decided(&json!({}), 1, &live).obstacle.unwrap().category(), "NameTaken");
    let over = Observed { service_conflicts, ..finished(&everything()) };
    assert!(decided(&everything(), 1, &over).obstacle.is_none());
}

#[test]
fn a_taken_alias_stops_nothing_and_is_tried_again() {
    let mut live = settled(&everything());
    live.services.remove("web");
    live.alias_conflicts = vec!["web".to_owned()];
    let plan = decided(&everything(), 1, &live);
    assert_eq!(lines(&plan), nothing());
    assert_eq!(next(&live, &plan), None);
    live.pods.lead = Some(ready_lead());
    assert_eq!(next(&live, &plan), Some(ALIAS_RETRY_INTERVAL));
    live.alias_conflicts.clear();
    assert_eq!(lines(&decided(&everything(), 1, &live)), ["create Service web"]);
}

#[test]
fn missing_pods_are_checked_again_soon() {
    let mut live = settled(&json!({}));
    live.job.as_mut().unwrap().status = job(3).status;
    let plan = decided(&json!({}), 1, &live);
    let mut starting = pod("hello-0-a", "Running", "hello", running());
    let (soon, later) = (Some(POLL_INTERVAL), None);
    live.pods.lead = Some(starting.clone());
    assert_eq!(next(&live, &plan), soon, "the lead is not ready any more");
    starting.status.as_mut().unwrap().conditions = None;
    live.pods.lead = Some(starting);
    assert_eq!(next(&live, &plan), soon);
    // A failed sidecar makes its pod unready for good: that is no reason to poll.
    live.pods.lead = Some(ready_lead());
    assert_eq!(next(&live, &plan), later);
    // A worker that was just replaced may wait for something.
    for (seconds, asks) in [(40, true), (80, false)] {
        live.pods.next = Some(Duration::from_secs(seconds));
        assert_eq!(next(&live, &plan), live.pods.next.filter(|_| asks));
    }
    live.pods.next = None;
    live.job.as_mut().unwrap().status.as_mut().unwrap().active = Some(3);
    assert_eq!(next(&live, &plan), soon, "the Job lacks a pod");
}

/// The labels of a pod of the Job with `index`, those of the Job controller among them.
fn pod_labels(job: &Job, index: u32) -> BTreeMap<String, String> {
    let template = job.spec.as_ref().unwrap().template.metadata.clone();
    let mut labels = template.unwrap().labels.unwrap();
    labels.insert("batch.kubernetes.io/job-name".to_owned(), job.name_any());
    labels.insert("batch.kubernetes.io/job-completion-index".to_owned(), index.to_string());
    labels
}

#[test]
fn each_service_selects_the_pods_that_it_is_for() {
    for (minimal, by_headless) in [(false, [true, true, true]), (true, [true, false, false])] {
        let mut spec = everything();
        spec["flux"] = json!({ "minimalService": minimal });
        let live = settled(&spec);
        let job = live.job.as_ref().unwrap();
        let services_pod = live.services_pod.as_ref().unwrap().labels().clone();
        let pods = [pod_labels(job, 0), pod_labels(job, 1), services_pod];
        let selected = |name: &str| {
            let spec = live.services[name].spec.as_ref().unwrap();
            let selector = spec.selector.as_ref().unwrap();
            pods.each_ref().map(|pod| selector.iter().all(|(key, it)| pod.get(key) == Some(it)))
        };
        assert_eq!(selected("hello"), by_headless);
        assert_eq!(selected("hello-lead"), [true, false, false]);
        assert_eq!(selected("hello-web"), [true, true, false]);
        assert_eq!(selected("web"), [true, true, false]);
    }
}
