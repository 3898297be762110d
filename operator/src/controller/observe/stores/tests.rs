use super::*;
use http::{Request, Response};
use k8s_openapi::api::core::v1::PodStatus;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_deleted_minicluster_without_an_event_is_forgotten() {
    let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let client = Client::new(service, "apps");
    let cache = Arc::new(MiniClusterCache::default());
    let gone = ("apps".to_owned(), "gone".to_owned());
    cache.set_summary(&gone, None);
    let end = json!({ "type": "BOOKMARK", "object": {
        "kind": "", "apiVersion": "", "metadata": {
            "resourceVersion": "1", "annotations": { "k8s.io/initial-events-end": "true" },
        },
    } });
    let answer = Response::new(Body::from(end.to_string().into_bytes()));
    let is_synced = Arc::new(AtomicBool::new(false));
    let synced = Arc::clone(&is_synced);
    let (_, stream) = mini_clusters(Api::all(client), Arc::clone(&cache), move || {
        synced.store(true, Ordering::Release);
    });
    let listed = async {
        let (request, respond) = server.next_request().await.unwrap();
        assert!(request.uri().query().unwrap().contains("sendInitialEvents=true"));
        respond.send_response(answer);
        // The list is complete when the watch goes on.
        let (request, _) = server.next_request().await.unwrap();
        assert!(!request.uri().query().unwrap().contains("sendInitialEvents"));
    };
    let mut stream = pin!(stream);
    tokio::select! {
        _ = stream.next() => unreachable!(),
        () = listed => {}
    }
    assert!(is_synced.load(Ordering::Acquire));
    assert!(!cache.has(&gone));
}

/// A server without streams refuses them; the stream of another one ends before its list does.
#[tokio::test]
async fn a_list_that_is_not_streamed_comes_in_pages() {
    let refusal = json!({
        "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "",
    });
    for (code, answer, streams) in [(422, refusal.to_string(), 1), (200, String::new(), 4)] {
        let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let api: Api<ConfigMap> = Api::all(Client::new(service, "apps"));
        let mut watch: Pin<_> = Box::pin(listed(api, watcher::Config::default()));
        let requests = async {
            let mut begun = 0;
            loop {
                let (request, respond) = server.next_request().await.unwrap();
                let query = request.uri().query().unwrap();
                if query.contains("limit=20") {
                    return begun;
                }
                assert!(query.contains("sendInitialEvents=true"), "{query}");
                begun += 1;
                let answer = Body::from(answer.clone().into_bytes());
                respond.send_response(Response::builder().status(code).body(answer).unwrap());
            }
        };
        let events = async { while watch.next().await.is_some() {} };
        tokio::select! {
            () = events => unreachable!(),
            begun = requests => assert_eq!(begun, streams),
        }
    }
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
fn leads_are_found_by_their_job_once_all_are_stored() {
    let lead = |version: Option<&str>| -> Pod {
        serde_json::from_value(json!({ "metadata": {
            "name": "hello-0-a", "namespace": "apps", "resourceVersion": version,
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": "j" }],
        } }))
        .unwrap()
    };
    let (stores, writers) = Stores::new();
    let mut kept = writers.leads.lock();
    let mut write = |event| kept.write(event, |_| Stage::Running);
    write(Event::Init);
    write(Event::InitApply(lead(Some("1"))));
    assert!(stores.leads_of("apps", "j").is_none());
    write(Event::InitDone);
    assert_eq!(stores.leads_of("apps", "j").unwrap().len(), 1);
    assert!(stores.leads_of("apps", "another").unwrap().is_empty());
    assert!(stores.leads_of("elsewhere", "j").unwrap().is_empty());
    write(Event::Apply(lead(None)));
    assert!(stores.leads_of("apps", "j").is_none(), "one is not stored whole");
}

fn put<K>(kept: &SharedKept<K>, object: serde_json::Value)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Default + Clone,
{
    let object = serde_json::from_value(object).unwrap();
    kept.lock().write(Event::Apply(object), |_| Stage::Running);
}

#[test]
fn a_settled_run_leaves_the_stores() {
    let object = |kind: &str, name: &str, owner: &str, is_controller: bool| {
        json!({ "kind": kind, "metadata": {
            "name": name, "namespace": "apps", "resourceVersion": "1", "ownerReferences": [{
                "apiVersion": "v1", "kind": "A", "name": "a", "uid": owner, "controller": is_controller,
            }],
        } })
    };
    for is_shared in [false, true] {
        let (stores, writers) = Stores::new();
        put(&writers.jobs, object("Job", "hello", "u", true));
        put(&writers.config_maps, object("ConfigMap", "hello-agent", "u", true));
        put(&writers.services, object("Service", "hello", "u", !is_shared));
        put(&writers.leads, object("Pod", "hello-0-a", "j", true));
        let mut mini_cluster = crate::controller::fixtures::mini_cluster(&json!({}));
        mini_cluster.metadata.namespace = Some("apps".to_owned());
        mini_cluster.metadata.uid = Some("u".to_owned());
        writers.forget_run(&stores, &Identity::of(&mini_cluster).unwrap(), Some("j"));
        let left = [stores.jobs.len(), stores.config_maps.len(), stores.leads.len()];
        assert_eq!((left, stores.services.len()), ([0, 0, 0], usize::from(is_shared)));
    }
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
