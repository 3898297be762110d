//! The live objects of a case.

use super::case::Case;
use super::pod::PodCase;
use crate::controller::decide::{Plan, change::Change};
use crate::controller::error::{NameConflict, ObjectName};
use crate::controller::fixtures::{at, ended_job, job};
use crate::controller::job_ext::parallelism;
use crate::controller::observe::gang::ObservedPodGroups;
use crate::controller::observe::stores::strip_job;
use crate::controller::observe::waiting::{Waiting, cannot_join};
use crate::controller::observe::{Observed, Pods};
use crate::controller::pod_ext::running_beside;
use flux_api::objects::AGENT_CONFIG_KEY;
use flux_api::objects::gang::GangScheduler;
use flux_contract::AgentConfig;
use k8s_openapi::api::batch::v1::Job;
use kube::{Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

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
    if let Some((scheduler, Change::Create(object))) = &writes.pod_group {
        let mut object = object.as_ref().clone();
        object.metadata.uid = Some("group-uid".to_owned());
        object.metadata.resource_version = Some("5".to_owned());
        live.gang = vec![(*scheduler, Some(object))];
    }
    let config_map = writes.config_map.clone().with_lead_address([10, 0, 0, 1].into());
    live.config_map = created(&config_map).or_else(|| live.config_map.take());
    live.job = created(&writes.job).or_else(|| live.job.take());
}

/// The objects of `case` before its patches.
pub(super) fn observed(case: &Case) -> Observed {
    // Each certificate takes some milliseconds to make.
    static MADE: Mutex<BTreeMap<String, Observed>> = Mutex::new(BTreeMap::new());
    let key = format!("{:?} {:?}", case.started, case.served);
    let mut live = MADE.lock().entry(key).or_insert_with(|| started(case)).clone();
    if let Some(live) = &mut live.job {
        live.status = status(case, live);
    }
    live.pods = pods(case);
    live
}

/// The objects that the operator creates for the first specification of `case`.
fn started(case: &Case) -> Observed {
    let mut live = Observed { gang: served(case), ..Observed::default() };
    if case.started.is_some() {
        let started = Case { started: case.started.clone(), ..Case::default() };
        // The pod of `spec.services` is created after the Job.
        for _ in 0..2 {
            create(&started.conclude(None, live.clone()).plan, &mut live);
        }
    }
    live
}

fn status(case: &Case, live: &Job) -> Option<k8s_openapi::api::batch::v1::JobStatus> {
    if let Some(ended) = &case.ended {
        let (type_, reason) = ended.split_once(' ').unwrap();
        return ended_job(type_, reason).status;
    }
    let mut status = job(case.ready?).status?;
    status.active = Some(parallelism(live));
    Some(status)
}

fn served(case: &Case) -> ObservedPodGroups {
    let served = |it: &GangScheduler| case.served.contains(&format!("{it:?}"));
    GangScheduler::ALL.into_iter().filter(served).map(|it| (it, None)).collect()
}

fn pods(case: &Case) -> Pods {
    let pod = |pod: &Option<PodCase>| pod.as_ref().map(PodCase::pod);
    let lead = pod(&case.lead);
    let waiting = case.waiting.clone();
    let waiting = waiting.map(|message| Waiting { message, is_persistent: !case.is_passing });
    let now = at(case.now());
    let joins = |obstacle| Some(cannot_join(lead.as_ref()?, obstacle, &now));
    let waiting = waiting.or_else(|| joins(case.obstacle.as_ref()?));
    Pods {
        held: lead.clone().filter(|lead| running_beside(lead, "hello").is_some()),
        lead: lead.clone(),
        earlier_lead: pod(&case.earlier_lead),
        failed_worker: pod(&case.failed_worker),
        unstarted_leads: case.unstarted_leads.clone(),
        waiting,
        refused: case.pods_refused.clone(),
        next: case.next_check.map(Duration::from_secs),
        ..Pods::default()
    }
}

/// Patches and removes objects in `live`.
pub(super) fn change(case: &Case, live: &mut Observed) {
    patch(&mut live.job, case.job.as_ref());
    patch(&mut live.config_map, case.config_map.as_ref());
    patch(&mut live.services_pod, case.services_pod.as_ref());
    if let (Some(live), Some(change)) = (&mut live.config_map, &case.agents) {
        let text = live.data.as_mut().unwrap().get_mut(AGENT_CONFIG_KEY).unwrap();
        let mut config = AgentConfig::from_toml(text).ok();
        patch(&mut config, Some(change));
        *text = config.unwrap().to_toml().unwrap();
    }
    for (_, pod_group) in &mut live.gang {
        patch(pod_group, case.pod_group.as_ref());
    }
    for (name, change) in &case.services {
        let mut service = live.services.remove(name);
        patch(&mut service, Some(change));
        live.services.extend(service.map(|service| (name.clone(), service)));
    }
    if let Some(job) = &mut live.job {
        strip_job(job);
    }
    if case.gone.iter().any(|it| it == "job") {
        live.gang = served(case);
    }
    for name in &case.gone {
        match name.as_str() {
            "job" => live.job = None,
            "configMap" => live.config_map = None,
            "servicesPod" => live.services_pod = None,
            "lead" => (live.pods.lead, live.pods.held) = (None, None),
            "podGroup" => live.gang[0].1 = None,
            service => assert!(live.services.remove(service).is_some(), "no Service {service}"),
        }
    }
    let left = conflicts(&case.left, NameConflict::Predecessor);
    live.conflicts = conflicts(&case.taken, NameConflict::Taken).chain(left).collect();
    live.service_conflicts = conflicts(&case.taken_services, NameConflict::Taken).collect();
    live.alias_conflicts.clone_from(&case.taken_aliases);
}

fn patch<K: Serialize + DeserializeOwned>(object: &mut Option<K>, change: Option<&Value>) {
    if let (Some(live), Some(change)) = (object.as_mut(), change) {
        let mut value = serde_json::to_value(&*live).unwrap();
        json_patch::merge(&mut value, change);
        *live = serde_json::from_value(value).unwrap();
    }
}

/// Objects whose kinds and names are in `texts`.
fn conflicts(
    texts: &[String],
    of: fn(ObjectName) -> NameConflict,
) -> impl Iterator<Item = NameConflict> {
    texts.iter().map(move |text| {
        let (kind, name) = text.split_once(' ').unwrap();
        of(ObjectName { kind: kind.to_owned(), name: name.to_owned() })
    })
}
