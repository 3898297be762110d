//! Volumes for the claims of an example, where the cluster has no storage class that makes them.

use super::Example;
use crate::environment::Environment;
use crate::trial::Trial;
use anyhow::Result;
use serde_json::{Value, json};

/// Marks the storage class of claims that name none.
const IS_DEFAULT: &str = "storageclass\\.kubernetes\\.io/is-default-class";

/// The label of the volumes, whose value is the namespace of their claims.
const LABEL: &str = "flux-e2e/namespace";

/// Makes a volume for each claim that nothing else would: a directory of the node, for that claim of the trial's
/// namespace and no other.
pub(super) fn provide(environment: &Environment, trial: &Trial, example: &Example) -> Result<()> {
    let is_claim = |it: &&Value| it["kind"] == "PersistentVolumeClaim";
    let claims = example.objects.iter().filter(is_claim).collect::<Vec<_>>();
    let defaults = format!("-ojsonpath={{.items[*].metadata.annotations.{IS_DEFAULT}}}");
    if claims.is_empty()
        || environment.kubectl(&["get", "storageclasses", &defaults])?.contains("true")
    {
        return Ok(());
    }
    let volumes: Vec<Value> = claims.iter().map(|it| volume(trial.namespace(), it)).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": volumes });
    environment.cluster.apply(&list.to_string(), &[])
}

/// Deletes them; with `wait`, waits until they are gone, which is after their claims. They belong to no namespace, so
/// they are not removed with it.
pub(super) fn remove(namespace: &str, wait: bool, environment: &Environment) -> Result<()> {
    let (selector, wait) = (format!("--selector={LABEL}={namespace}"), format!("--wait={wait}"));
    environment.kubectl(&["delete", "persistentvolume", &selector, &wait, "--timeout=3m"]).map(drop)
}

fn volume(namespace: &str, claim: &Value) -> Value {
    let claimed = claim["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!("{namespace}-{claimed}");
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "labels": { LABEL: namespace } },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": claim["spec"]["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": { "namespace": namespace, "name": claimed },
            "hostPath": { "path": format!("/var/tmp/{name}"), "type": "DirectoryOrCreate" },
        },
    })
}
