//! An API server that makes a Job without the volumes that are images, as one without the feature does.

use super::has_image_volumes;
use crate::faults::end_of;
use crate::{DEADLINE, apply, failure, kubectl, lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::not_run;
use e2e::progress::Progress;
use e2e::trial::{Trial, condition};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// What is left of the volumes of a Job, and of the mounts of its first container (`dropImageVolumes` in
/// `pkg/api/pod/util.go`), as JSON patches.
const LEFT_OUT: &str = r#"[
    JSONPatch{op: "replace", path: "/spec/template/spec/volumes",
        value: object.spec.template.spec.volumes.filter(volume, !has(volume.image))},
    JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/volumeMounts",
        value: object.spec.template.spec.containers[0].volumeMounts.filter(mount,
            !object.spec.template.spec.volumes.exists(volume, has(volume.image) && volume.name == mount.name))}
]"#;

/// Lets the API server leave the images out of Jobs in the namespace of `trial`; false where it has no policies for that.
/// They go with the namespace.
async fn leave_out_images(trial: &Trial) -> Result<bool> {
    let versions =
        kubectl(&["api-resources", "--api-group=admissionregistration.k8s.io", "-oname"])?;
    if !versions.contains("mutatingadmissionpolicies") {
        return Ok(false);
    }
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("policy.json");
    let namespace = trial.namespace();
    let uid = Api::<Namespace>::all(trial.client().clone()).get(namespace).await?.uid();
    let owner = json!({ "apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid });
    std::fs::write(&file, policy(namespace, &owner).to_string())?;
    kubectl(&["apply", "-f", &file.display().to_string()])?;
    until("the policy to act", async || {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let made: Job = trial.api().create(&parameters, &probe()?).await?;
        let pod = made.spec.and_then(|spec| spec.template.spec).context("no pod")?;
        Ok(pod.volumes.is_none_or(|volumes| volumes.is_empty()).then_some(()))
    })
    .await?;
    Ok(true)
}

fn policy(namespace: &str, owner: &Value) -> Value {
    let version = "admissionregistration.k8s.io/v1";
    let metadata = json!({ "name": namespace, "ownerReferences": [owner] });
    let there = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    let jobs = json!({
        "apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"],
    });
    let policy = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": { "namespaceSelector": there, "resourceRules": [jobs] },
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": LEFT_OUT } }],
        },
    });
    let binding = json!({
        "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": { "policyName": namespace },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [policy, binding] })
}

/// A Job of which nothing is made.
fn probe() -> Result<Job> {
    let image = json!({ "name": "image", "image": { "reference": "probe" } });
    let mount = json!({ "name": "image", "mountPath": "/image" });
    let container = json!({ "name": "probe", "image": "probe", "volumeMounts": [mount] });
    let pod = json!({ "restartPolicy": "Never", "volumes": [image], "containers": [container] });
    let job = json!({ "metadata": { "name": "probe" }, "spec": { "template": { "spec": pod } } });
    Ok(serde_json::from_value(job)?)
}

#[test]
#[ignore = "needs a cluster"]
fn a_job_that_the_api_server_has_made_without_the_images_fails_and_says_why() {
    trial("left-out", &[], async |trial| {
        if has_image_volumes()? && !leave_out_images(trial).await? {
            let why = "the API server has image volumes, and nothing that would take them away";
            not_run::note("Jobs without their images", why, &Progress::new());
            return Ok(());
        }
        let spec = "{size: 1, flux: {container: {install: Image}}, containers: [{image: 'ubuntu:24.04', command: hostname}]}";
        let name = apply(trial, "left-out", spec).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        let pod = lead(trial, &name).await?;
        let end = end_of(&pod, &name).context("the runner has not ended")?;
        ensure!(end.reason.as_deref() == Some("StartError"), "{end:?}");
        let (_, accepted, told) = condition(&cluster, "Accepted").context("no condition")?;
        ensure!(accepted == "FieldsNotActedOn", "{accepted}: {told}");
        ensure!(told.contains("the volumes of agent and view (feature ImageVolume"), "{told}");
        ensure!((code, reason) == (Some(128), "StartError"), "{code:?} {reason}: {message}");
        Ok(())
    });
}
