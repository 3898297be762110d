use super::*;
use crate::controller::fixtures::{ended_job, job};
use futures::StreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1::PodStatus;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_deleted_minicluster_without_an_event_is_forgotten() {
    let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let client = Client::new(service, "apps");
    let cache = Arc::new(MiniClusterCache::default());
    let gone = ("apps".to_owned(), "gone".to_owned());
    cache.set_summary(&gone, None);
    let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
    let answer = Response::new(Body::from(list.to_string().into_bytes()));
    let is_synced = Arc::new(AtomicBool::new(false));
    let synced = Arc::clone(&is_synced);
    let (_, stream) = mini_clusters(Api::all(client), Arc::clone(&cache), move || {
        synced.store(true, Ordering::Release);
    });
    let listed = async {
        let (_, respond) = server.next_request().await.unwrap();
        respond.send_response(answer);
        // The list is complete when the watch begins.
        server.next_request().await.unwrap();
    };
    let mut stream = pin!(stream);
    tokio::select! {
        _ = stream.next() => unreachable!(),
        () = listed => {}
    }
    assert!(is_synced.load(Ordering::Acquire));
    assert!(!cache.has(&gone));
}

#[test]
fn objects_without_a_minicluster_owner_are_not_stored() {
    let map = |owner: &str, controller: bool| -> ConfigMap {
        let owner = json!({
            "apiVersion": "v1", "kind": owner, "name": "a", "uid": "u", "controller": controller,
        });
        let metadata = json!({ "name": "map", "ownerReferences": [owner] });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    };
    let of = |event| without_others(event, MINI_CLUSTER);
    // A shared Service has owners, but no controller.
    for ours in [map(MINI_CLUSTER, true), map(MINI_CLUSTER, false)] {
        assert!(matches!(of(Event::Apply(ours.clone())), Some(Event::Apply(_))));
        assert!(matches!(of(Event::InitApply(ours)), Some(Event::InitApply(_))));
    }
    for other in [map("Deployment", true), map("Job", false)] {
        assert!(of(Event::InitApply(other.clone())).is_none());
        // The object may have been ours before.
        assert!(matches!(of(Event::Apply(other)), Some(Event::Delete(_))));
    }
    assert!(matches!(of(Event::InitDone), Some(Event::InitDone)));
    assert_eq!((MINI_CLUSTER, JOB), (&*MiniCluster::kind(&()), &*Job::kind(&())));
}

#[test]
fn a_large_object_keeps_its_identity_and_controller() {
    let stripped = |text: usize, owner: usize| {
        let owner = json!({
            "apiVersion": "v1", "kind": MINI_CLUSTER, "name": "a".repeat(owner), "uid": "b",
            "controller": true,
        });
        let metadata =
            json!({ "name": "hello", "resourceVersion": "1", "ownerReferences": [owner] });
        let map = json!({ "metadata": metadata, "data": { "text": "x".repeat(text) } });
        let mut map: ConfigMap = serde_json::from_value(map).unwrap();
        Budget::default().hold(&mut map, false);
        assert_eq!(map.metadata.name.as_deref(), Some("hello"));
        (is_whole(&map), controller_of(&map, MINI_CLUSTER).is_some(), map.data.is_some())
    };
    assert_eq!(stripped(OBJECT_SIZE_LIMIT / 2, 1), (true, true, true));
    assert_eq!(stripped(OBJECT_SIZE_LIMIT, 1), (false, true, false));
    assert_eq!(stripped(0, OBJECT_SIZE_LIMIT), (false, false, false));
}

#[test]
fn the_memory_of_a_store_is_bounded() {
    let map = |name: usize| -> ConfigMap {
        let data: BTreeMap<String, &str> = (0..800).map(|key| (key.to_string(), "x")).collect();
        let metadata = json!({ "name": name.to_string(), "resourceVersion": "1" });
        serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap()
    };
    let mut budget = Budget::default();
    let mut whole = |event: fn(ConfigMap) -> Event<ConfigMap>, name: usize| match budget
        .fit(event(map(name)), |_| false)
    {
        Event::Apply(map) | Event::InitApply(map) => is_whole(&map),
        Event::Delete(_) | Event::Init | Event::InitDone => false,
    };
    let fits = STORE_LIMIT / memory_of(&map(1000)).unwrap();
    assert!((100..1000).contains(&fits), "{fits}");
    assert!((0..fits).all(|name| whole(Event::InitApply, 1000 + name)));
    assert!(!whole(Event::InitApply, 1000 + fits), "the store is full");
    assert!(whole(Event::Apply, 1000), "the object is stored already");
    whole(Event::Delete, 1000);
    assert!(whole(Event::Apply, 1000 + fits), "there is space again");
}

#[test]
fn finished_jobs_leave_room_for_running_ones() {
    let finished = || ended_job("Complete", "SuccessPolicy");
    let mut budget = Budget::default();
    let mut is_stored = |number: usize, mut job: Job| {
        job.metadata.name = Some(format!("job-{number}"));
        job.metadata.resource_version = Some("1".to_owned());
        job.annotations_mut().insert("flux-framework.org/fields".to_owned(), "x".repeat(8000));
        let Event::Apply(job) = budget.fit(Event::Apply(job), strip_job) else { return false };
        is_whole(&job)
    };
    let kept = (0..5000).filter(|number| is_stored(*number, finished())).count();
    assert!((500..2500).contains(&kept), "{kept}");
    assert!((5000..5500).all(|number| is_stored(number, job(4))));
    assert!(!is_stored(5000, finished()), "the Job has finished");
    assert!(is_stored(5000, job(4)), "its successor");
}

#[test]
fn leads_are_found_by_their_job_once_all_are_stored() {
    let lead = |version: Option<&str>| -> Pod {
        serde_json::from_value(json!({ "metadata": {
            "name": "hello-0-a", "namespace": "apps", "resourceVersion": version,
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": "j" }],
        } }))
        .unwrap()
    };
    let (stores, writers) = Stores::new();
    let mut writer = writers.leads;
    writer.apply_watcher_event(&Event::Init);
    writer.apply_watcher_event(&Event::InitApply(lead(Some("1"))));
    assert!(stores.leads_of("apps", "j").is_none());
    writer.apply_watcher_event(&Event::InitDone);
    assert_eq!(stores.leads_of("apps", "j").unwrap().len(), 1);
    assert!(stores.leads_of("apps", "another").unwrap().is_empty());
    assert!(stores.leads_of("elsewhere", "j").unwrap().is_empty());
    writer.apply_watcher_event(&Event::Apply(lead(None)));
    assert!(stores.leads_of("apps", "j").is_none(), "one is not stored whole");
}

#[test]
fn metadata_keeps_identity_and_a_hash_for_queues() {
    let stripped = |queue: &str, resume: &str| {
        let mut metadata: ObjectMeta = serde_json::from_value(json!({
            "name": "hello", "uid": "u", "generation": 3,
            "annotations": { labels::RESUME: resume, "more": "x" },
            "labels": { "kueue.x-k8s.io/queue-name": queue, "more": "x" },
        }))
        .unwrap();
        strip_metadata(&mut metadata);
        metadata
    };
    let team = stripped("team", "a");
    assert_eq!((team.generation, team.annotations.is_none()), (Some(3), true));
    assert_eq!(team.labels.as_ref().unwrap().len(), 1);
    assert_ne!(team.labels, stripped("other", "a").labels);
    assert_ne!(team.labels, stripped("team", "b").labels);
}

#[test]
fn a_stored_pod_keeps_its_state() {
    let runner = |image: &str, id: &str| {
        json!([{
            "name": "hello", "image": image, "imageID": id, "ready": true, "restartCount": 2,
            "started": true, "state": { "running": {} },
        }])
    };
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": { "annotations": { "flux-framework.org/fields": "a", "other": "b" } },
        "spec": { "containers": [] },
        "status": {
            "phase": "Running", "podIP": "192.0.2.1", "containerStatuses": runner("app", "app@1"),
        },
    }))
    .unwrap();
    let entry =
        json!({ "manager": "kubelet", "subresource": "status", "time": "2026-11-29T00:00:00Z" });
    let mut written = entry.clone();
    written["fieldsV1"] = json!({ "f:status": {} });
    pod.metadata.managed_fields = serde_json::from_value(json!([written])).unwrap();
    let mut refused = pod.clone();
    strip_pod(&mut pod);
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "annotations": { "flux-framework.org/fields": "a" } },
        "status": {
            "phase": "Running", "podIP": "192.0.2.1", "containerStatuses": runner("", ""),
        },
    });
    assert_eq!(json!(pod), expected);
    refused.status = Some(PodStatus { phase: Some("Failed".to_owned()), ..PodStatus::default() });
    strip_pod(&mut refused);
    assert_eq!(json!(refused.metadata.managed_fields), json!([entry]));
}
