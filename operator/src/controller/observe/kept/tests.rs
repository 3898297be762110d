use super::*;
use crate::controller::fixtures::{ended_job, job};
use crate::controller::observe::stores::{MINI_CLUSTER, controller_of, strip_job};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use std::collections::BTreeMap;

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
        Budget::default().hold(&mut map, Stage::Running);
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
    let mut whole = |event: fn(ConfigMap) -> Event<ConfigMap>, name: usize| {
        let mut event = event(map(name));
        budget.fit(&mut event, |_| Stage::Running);
        match event {
            Event::Apply(map) | Event::InitApply(map) => is_whole(&map),
            Event::Delete(_) | Event::Init | Event::InitDone => false,
        }
    };
    let fits = STORE_LIMIT / memory_of(&map(1000)).unwrap();
    assert!((100..1000).contains(&fits), "{fits}");
    assert!((0..fits).all(|name| whole(Event::InitApply, 1000 + name)));
    assert!(!whole(Event::InitApply, 1000 + fits), "the store is full");
    assert!(whole(Event::Apply, 1000), "the object is stored already");
    whole(Event::Delete, 1000);
    assert!(whole(Event::Apply, 1000 + fits), "there is space again");
}

/// A Job of some 9 kB by the estimate.
fn numbered(number: usize, mut job: Job) -> Job {
    job.metadata.name = Some(format!("job-{number}"));
    job.metadata.namespace = Some("apps".to_owned());
    job.metadata.resource_version = Some("1".to_owned());
    job.metadata.owner_references = serde_json::from_value(json!([{
        "apiVersion": "v1", "kind": MINI_CLUSTER, "name": "a", "uid": "u", "controller": true,
    }]))
    .unwrap();
    job.annotations_mut().insert("flux-framework.org/fields".to_owned(), "x".repeat(8000));
    job
}

#[test]
fn no_finished_job_takes_the_place_of_a_running_one() {
    let is_stored = |kept: &mut Kept<Job>, number: usize, job: Job| {
        let event = kept.write(Event::Apply(numbered(number, job)), strip_job);
        matches!(event, Event::Apply(job) if is_whole(&job))
    };
    let finished = || ended_job("Complete", "SuccessPolicy");
    let of = |others: usize| {
        let (_, kept) = Kept::<Job>::shared();
        let mut kept = kept.lock();
        let others = (0..others).filter(|it| is_stored(&mut kept, *it, finished())).count();
        (others, (5000..9000).filter(|it| is_stored(&mut kept, *it, job(4))).count())
    };
    let (kept, running) = of(5000);
    assert!((500..1500).contains(&kept) && (1500..2500).contains(&running), "{kept} {running}");
    assert_eq!(of(0), (0, running));
}

#[test]
fn finished_jobs_of_a_first_list_are_not_stored() {
    let (store, kept) = Kept::<Job>::shared();
    let mut kept = kept.lock();
    kept.write(Event::Init, strip_job);
    let finished = numbered(0, ended_job("Complete", "SuccessPolicy"));
    kept.write(Event::InitApply(finished.clone()), strip_job);
    kept.write(Event::InitApply(numbered(1, job(4))), strip_job);
    kept.write(Event::InitDone, strip_job);
    let names = || store.state().iter().map(|job| job.name_any()).collect::<Vec<_>>();
    assert_eq!((names(), kept.budget.sum_of_others), (vec!["job-1".to_owned()], 0));
    kept.write(Event::Apply(finished), strip_job);
    assert_eq!(names().len(), 2, "its last reconcile reads it");
    kept.forget("apps", "job-0", "of another");
    assert_eq!(names().len(), 2);
    kept.forget("apps", "job-0", "u");
    assert_eq!(
        (names().as_slice(), kept.budget.sum_of_others),
        (["job-1".to_owned()].as_slice(), 0)
    );
}
