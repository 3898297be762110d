//! What a person needs to see when a trial fails: objects, Events and logs, each in a file of its own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod, Service},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};

use super::{Trial, logs::pod_logs};
use crate::{product::checkout, programs::last_lines};

/// Where evidence is kept, below the checkout: one directory for each trial, named after its namespace.
pub const EVIDENCE: &str = "target/e2e-evidence";

/// How many lines of Events, and of each pod's log, the digest has.
const DIGEST_LINES: usize = 6;

/// Keeps every object, Event and log of the trial's namespace, and the operator's log, in files. The
/// answer is a digest of them for the terminal, with the directory's name.
pub async fn keep_evidence(trial: &Trial) -> String {
    match collect(trial).await {
        Ok(digest) => digest,
        Err(error) => format!("(no evidence: {error:#})"),
    }
}

async fn collect(trial: &Trial) -> Result<String> {
    let directory = checkout()?.join(EVIDENCE).join(trial.namespace());
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let mut digest = vec![format!("everything about it is in {}", directory.display())];
    for cluster in list::<MiniCluster>(&trial.api()).await {
        let status = serde_saphyr::to_string(&cluster.status).unwrap_or_default();
        digest.push(format!("--- status of {}\n{status}", cluster.name_any()));
    }
    objects::<MiniCluster>(trial, &directory).await?;
    objects::<Job>(trial, &directory).await?;
    objects::<Service>(trial, &directory).await?;
    objects::<ConfigMap>(trial, &directory).await?;
    objects::<Pod>(trial, &directory).await?;
    let events = events(trial).await;
    digest.push(format!("--- Events\n{}", last_lines(&events, DIGEST_LINES)));
    write(&directory, "events.txt", &events)?;
    for pod in list::<Pod>(&trial.api()).await {
        for (container, log) in pod_logs(trial, &pod).await {
            let name = format!("{}-{container}.log", pod.name_any());
            digest.push(format!("--- {name}\n{}", last_lines(&log, DIGEST_LINES)));
            write(&directory, &name, &log)?;
        }
    }
    let operator: Api<Pod> =
        Api::namespaced(trial.client().clone(), crate::product::install::NAMESPACE);
    for pod in list::<Pod>(&operator).await {
        let log = operator.logs(&pod.name_any(), &kube::api::LogParams::default()).await;
        let log = log.unwrap_or_else(|error| format!("(no log: {error})"));
        write(&directory, &format!("operator-{}.log", pod.name_any()), &log)?;
    }
    Ok(digest.join("\n"))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path: PathBuf = directory.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

async fn list<K>(api: &Api<K>) -> Vec<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}

async fn objects<K>(trial: &Trial, directory: &Path) -> Result<()>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).to_lowercase();
    for mut object in list::<K>(&trial.api()).await {
        object.meta_mut().managed_fields = None;
        let yaml = serde_saphyr::to_string(&object).unwrap_or_default();
        write(directory, &format!("{kind}-{}.yaml", object.name_any()), &yaml)?;
    }
    Ok(())
}

async fn events(trial: &Trial) -> String {
    let mut events = list::<Event>(&trial.api()).await;
    events.sort_by(|one, other| {
        one.metadata.creation_timestamp.cmp(&other.metadata.creation_timestamp)
    });
    let lines = events.into_iter().map(|event| {
        let at = event.metadata.creation_timestamp.map(|it| it.0.to_string()).unwrap_or_default();
        let about = event.involved_object.name.unwrap_or_default();
        let (reason, message) =
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        format!("{at} {about}: {reason}: {message}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
