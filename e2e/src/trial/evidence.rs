//! What a person needs to see when a trial fails: objects, Events, logs.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod, Service},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

use flux_operator::crd::MiniCluster;

use super::{Trial, logs::pod_logs};
use crate::progress::Progress;

/// Prints every object, Event and log of the trial's namespace, and the operator's log.
pub async fn print_evidence(trial: &Trial, progress: &Progress) {
    objects::<MiniCluster>(trial, progress).await;
    objects::<Job>(trial, progress).await;
    objects::<Service>(trial, progress).await;
    objects::<ConfigMap>(trial, progress).await;
    objects::<Pod>(trial, progress).await;
    events(trial, progress).await;
    for pod in list::<Pod>(&trial.api()).await {
        for (container, log) in pod_logs(trial, &pod).await {
            progress.say(&format!("--- log of {}/{container}\n{log}", pod.name_any()));
        }
    }
    let operator: Api<Pod> =
        Api::namespaced(trial.client().clone(), crate::product::install::NAMESPACE);
    for pod in list::<Pod>(&operator).await {
        let log = operator.logs(&pod.name_any(), &kube::api::LogParams::default()).await;
        progress.say(&format!("--- log of the operator {}\n{}", pod.name_any(), text(log)));
    }
}

fn text(log: kube::Result<String>) -> String {
    log.unwrap_or_else(|error| format!("(no log: {error})"))
}

async fn list<K>(api: &Api<K>) -> Vec<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}

async fn objects<K>(trial: &Trial, progress: &Progress)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    for mut object in list::<K>(&trial.api()).await {
        object.meta_mut().managed_fields = None;
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let yaml = serde_saphyr::to_string(&object).unwrap_or_default();
        progress.say(&format!("--- {kind} {}\n{yaml}", object.name_any()));
    }
}

async fn events(trial: &Trial, progress: &Progress) {
    for event in list::<Event>(&trial.api()).await {
        let about = event.involved_object.name.unwrap_or_default();
        let (reason, message) =
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        progress.say(&format!("--- Event {about}: {reason}: {message}"));
    }
}
