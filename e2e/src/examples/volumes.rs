//! Volumes for the claims of an example, where the cluster has no storage class that makes them.

use std::fs;

use anyhow::{Context as _, Result};
use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::StorageClass};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    core::DynamicObject,
    runtime::wait::{await_condition, conditions},
};
use serde_json::json;

use super::{Example, look::DEADLINE};
use crate::trial::Trial;

/// Marks the storage class of claims that name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The volumes that were made for one trial. They belong to no namespace, so they are not removed with it.
pub(super) struct Volumes(Vec<PersistentVolume>);

impl Volumes {
    /// Makes one for each claim that nothing else would: a directory of the node, for that claim of
    /// the trial's namespace and no other.
    pub(super) async fn provide(trial: &Trial, example: &Example) -> Result<Self> {
        let claims = claims(example)?;
        if claims.is_empty() || has_default_class(trial).await? {
            return Ok(Self(Vec::new()));
        }
        let api = Api::<PersistentVolume>::all(trial.client().clone());
        let mut made = Vec::new();
        for claim in claims {
            let volume = volume(trial.namespace(), &claim)?;
            let volume = api
                .create(&PostParams::default(), &volume)
                .await
                .with_context(|| format!("making a volume for the claim {claim}"))?;
            made.push(volume);
        }
        Ok(Self(made))
    }

    /// Deletes them, and waits until they are gone: after their claims.
    pub(super) async fn remove(self, client: &Client) -> Result<()> {
        let api = Api::<PersistentVolume>::all(client.clone());
        for volume in self.0 {
            let name = volume.name_any();
            let deleting = || format!("deleting the volume {name}");
            api.delete(&name, &DeleteParams::default()).await.with_context(deleting)?;
            let uid = volume.uid().unwrap_or_default();
            let gone = await_condition(api.clone(), &name, conditions::is_deleted(&uid));
            tokio::time::timeout(DEADLINE, gone)
                .await
                .with_context(deleting)?
                .with_context(deleting)?;
        }
        Ok(())
    }
}

/// Names of the claims among the manifests that are applied at the start.
fn claims(example: &Example) -> Result<Vec<String>> {
    let mut claims = Vec::new();
    for path in &example.manifests {
        let reading = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(reading)?;
        let object: DynamicObject = serde_saphyr::from_str(&text).with_context(reading)?;
        if object.types.as_ref().is_some_and(|types| types.kind == "PersistentVolumeClaim") {
            claims.push(object.name_any());
        }
    }
    Ok(claims)
}

async fn has_default_class(trial: &Trial) -> Result<bool> {
    let classes = Api::<StorageClass>::all(trial.client().clone())
        .list(&ListParams::default())
        .await
        .context("listing the storage classes")?;
    let is_default = |class: &StorageClass| {
        class.annotations().get(IS_DEFAULT).is_some_and(|value| value == "true")
    };
    Ok(classes.items.iter().any(is_default))
}

fn volume(namespace: &str, claim: &str) -> Result<PersistentVolume> {
    let name = format!("{namespace}-{claim}");
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "namespace": namespace, "name": claim },
            "hostPath": { "path": format!("/var/tmp/{name}"), "type": "DirectoryOrCreate" },
        },
    }))
    .with_context(|| format!("making a volume for the claim {claim}"))
}
