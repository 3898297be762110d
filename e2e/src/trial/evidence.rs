//! What a person needs to see when a trial fails: objects, Events and logs, each in a file of its own.

use std::{fmt::Debug, fs, path::Path};

use anyhow::{Context as _, Result};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Pod, Service},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams},
    core::DynamicObject,
    discovery::ApiResource,
};
use serde::de::DeserializeOwned;

use super::{Trial, logs::pod_logs};
use crate::{
    product::{checkout, install::NAMESPACE},
    programs::last_lines,
};

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
    for resource in [
        ApiResource::erase::<MiniCluster>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<Pod>(&()),
    ] {
        let (client, kind) = (trial.client().clone(), resource.kind.to_lowercase());
        let api = Api::<DynamicObject>::namespaced_with(client, trial.namespace(), &resource);
        for mut object in list(&api).await {
            object.metadata.managed_fields = None;
            let yaml = serde_saphyr::to_string(&object).unwrap_or_default();
            write(&directory, &format!("{kind}-{}.yaml", object.name_any()), &yaml)?;
        }
    }
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
    let operator: Api<Pod> = Api::namespaced(trial.client().clone(), NAMESPACE);
    for pod in list::<Pod>(&operator).await {
        let log = operator.logs(&pod.name_any(), &LogParams::default()).await;
        let log = log.unwrap_or_else(|error| format!("(no log: {error})"));
        write(&directory, &format!("operator-{}.log", pod.name_any()), &log)?;
    }
    Ok(digest.join("\n"))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

async fn list<K: Clone + DeserializeOwned + Debug>(api: &Api<K>) -> Vec<K> {
    api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default()
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
