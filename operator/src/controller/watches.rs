//! What the controller watches.

use super::context::Context;
use super::course::{AGENT_IMAGE_NOTE, agent_image};
use super::known::{Marker, name_of, take_out_history};
use flux_contract::labels;
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec, PodTemplateSpec};
use kube::core::ObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem;
use std::sync::Arc;

/// Everything the operator makes carries this label, so that it hears of nothing else.
pub(super) const MANAGED: &str = "app.kubernetes.io/managed-by=flux-operator";
/// Only leads are watched: a lead's end must be noticed at once, a worker's is the Job's business.
pub(super) const LEADS: &str =
    "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0";
/// The companions: their end must be noticed, and why they do not start.
pub(super) const COMPANIONS: &str = "app.kubernetes.io/managed-by=flux-operator,job-index=services";

/// Objects of a page when a watch begins with a list. A whole page is held in memory as text and as objects,
/// before anything is taken out of them.
const PAGE: u32 = 20;

/// How all watches begin.
pub(super) fn watch_config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// Every MiniCluster, as metadata, and the changes of their specifications. Status writes do not
/// pass: they are our own. A MiniCluster that cannot be read does not stop the watch of the
/// others, because only its metadata is read here.
///
/// `synced` is not told by the store: of two that wait for it, which the controller is one of, only
/// the last is woken (kube-runtime 5.0.0, `DelayedInit`).
pub(super) fn markers(
    api: Api<Marker>,
    context: Arc<Context>,
    synced: impl Fn() + Send + 'static,
) -> (Store<Marker>, impl Stream<Item = Result<Marker, watcher::Error>> + Send + 'static) {
    let (store, writer) = reflector::store();
    let stream = watcher(api, watch_config())
        .default_backoff()
        .modify(without_managers)
        .reflect(writer)
        .inspect_ok(move |event| match event {
            watcher::Event::InitDone => synced(),
            watcher::Event::Delete(marker) => context.known.forget(&name_of(marker)),
            watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Apply(_) => {}
        })
        .applied_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());
    (store, stream)
}

/// The objects that `labels` select, and each that is changed or goes; `slim` takes out of an object
/// what nobody asks for. `complete` is called when all there are have been brought.
pub(super) fn ours<K>(
    api: Api<K>,
    labels: &str,
    slim: fn(&mut K),
    complete: impl Fn() + Send + 'static,
) -> (Store<K>, impl Stream<Item = Result<K, watcher::Error>> + Send + 'static)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = watcher(api, watch_config().labels(labels))
        .default_backoff()
        .modify(slim)
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                complete();
            }
        })
        .touched_objects();
    (store, stream)
}

/// Takes out who owns which field.
pub(super) fn without_managers<K: Resource>(object: &mut K) {
    take_out_history(object.meta_mut());
}

/// Leaves of a Job's pods what is asked for: how they are restarted and, as a note in place of their metadata,
/// where their agent is from. A container or a volume takes as much memory as all the rest of the Job.
pub(super) fn without_pods(job: &mut Job) {
    without_managers(job);
    let agent = agent_image(job).map(str::to_owned);
    let Some(template) = job.spec.as_mut().map(|spec| &mut spec.template) else { return };
    let annotations = agent.map(|image| BTreeMap::from([(AGENT_IMAGE_NOTE.to_owned(), image)]));
    let restart_policy = template.spec.take().and_then(|pod| pod.restart_policy);
    *template = PodTemplateSpec {
        metadata: Some(ObjectMeta { annotations, ..ObjectMeta::default() }),
        spec: Some(PodSpec { restart_policy, ..PodSpec::default() }),
    };
}

/// Leaves how a lead and its containers are.
pub(super) fn state_only(lead: &mut Pod) {
    without_managers(lead);
    lead.spec = None;
    lead.metadata.annotations = None;
    let Some(status) = &mut lead.status else { return };
    (status.host_ip, status.host_ips, status.pod_ip, status.pod_ips) = (None, None, None, None);
    let init = status.init_container_statuses.iter_mut().flatten();
    for container in init.chain(status.container_statuses.iter_mut().flatten()) {
        *container = ContainerStatus {
            name: mem::take(&mut container.name),
            last_state: container.last_state.take(),
            ready: container.ready,
            restart_count: container.restart_count,
            started: container.started,
            state: container.state.take(),
            ..ContainerStatus::default()
        };
    }
}

/// The MiniCluster that a pod belongs to.
pub(super) fn cluster_of(pod: &Pod) -> Option<ObjectRef<Marker>> {
    let name = pod.labels().get(labels::NAME)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built_with, cluster};
    use crate::controller::index_labels;
    use flux_contract::Install;
    use serde_json::json;

    fn restarts(job: &Job) -> Option<String> {
        job.spec.as_ref()?.template.spec.as_ref()?.restart_policy.clone()
    }

    #[test]
    fn of_the_pods_of_a_job_only_what_is_asked_for_is_kept() {
        let cluster = cluster(&json!({ "size": 2, "pod": { "restartPolicy": "OnFailure" } }));
        for install in [Install::Copy, Install::Image] {
            let built = built_with(&cluster, install).job;
            let mut kept = built.clone();
            without_pods(&mut kept);
            let (before, after) = (restarts(&built), restarts(&kept));
            assert_eq!((before, agent_image(&built)), (after, agent_image(&kept)));
            assert!(agent_image(&kept).is_some());
            let pod = kept.spec.unwrap().template.spec.unwrap();
            assert!(pod.containers.is_empty() && pod.volumes.is_none());
        }
    }

    #[test]
    fn the_watches_select_what_the_objects_are_labelled_with() {
        let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
        assert_eq!(MANAGED, managed);
        assert_eq!(LEADS, format!("{managed},{}=0", labels::COMPLETION_INDEX));
        let companions = format!("{managed},{}={}", labels::JOB_INDEX, labels::COMPANION_INDEX);
        assert_eq!(COMPANIONS, companions);
        assert_eq!(index_labels::UNLABELLED, format!("{LEADS},!{}", labels::JOB_INDEX));
    }
}
