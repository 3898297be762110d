//! Directories for `kubectl apply -k`, to be used as they are or as resources of kustomizations.
//!
//! `crd` comes first and outlives an operator. `cluster-wide` and `one-namespace` stand on `base`. Each
//! option is a component: it is in `base` if it was asked for, and at hand if not.

use super::installation::{Installation, NAME};
use super::objects::{Object, Part, documents, objects};
use super::{File, HEADER, ManifestError};
use serde_json::{Value, json};

/// The file that makes the operator of `one-namespace` one for its own namespace.
const PATCH: &str = "watch-namespace.yaml";

/// The directories of `installation`.
pub(super) fn files(installation: &Installation) -> Result<Vec<File>, ManifestError> {
    let own = installation.own_namespace().to_owned();
    let with = |options: bool| Installation {
        pod_disruption_budget: options,
        network_policy: options,
        service_monitor: options,
        ..installation.clone()
    };
    let everywhere = objects(&with(false))?;
    let watching = Installation { watch_namespace: Some(own), ..with(false) };
    let components = objects(&with(true))?;
    let with_options = json!({ "components": asked_for(installation) });
    let on_base = json!({ "resources": ["../base"] });
    let patched = json!({ "resources": ["../base"], "patches": [{ "path": PATCH }] });
    let mut all = [
        directory(
            "crd",
            &everywhere,
            &[Part::Definition, Part::UserRoles],
            kustomization(json!({})),
        )?,
        directory("base", &everywhere, &[Part::Operator], kustomization(with_options))?,
        directory(
            "cluster-wide",
            &everywhere,
            &[Part::Namespace, Part::ClusterRole],
            kustomization(on_base),
        )?,
        directory("one-namespace", &objects(&watching)?, &[Part::Role], kustomization(patched))?,
        component(&components, Part::PodDisruptionBudget)?,
        component(&components, Part::NetworkPolicy)?,
        component(&components, Part::ServiceMonitor)?,
    ]
    .concat();
    all.push(file(&format!("one-namespace/{PATCH}"), &watch_own_namespace(installation))?);
    Ok(all)
}

/// The components of the options that were asked for.
fn asked_for(installation: &Installation) -> Vec<String> {
    let options = [
        (installation.pod_disruption_budget, Part::PodDisruptionBudget),
        (installation.network_policy, Part::NetworkPolicy),
        (installation.service_monitor, Part::ServiceMonitor),
    ];
    let asked_for = options.into_iter().filter(|(asked_for, _)| *asked_for);
    asked_for.map(|(_, part)| format!("../components/{}", part.name())).collect()
}

fn kustomization(fields: Value) -> Value {
    of_kind("Kustomization", "kustomize.config.k8s.io/v1beta1", fields)
}

/// The component of one option.
fn component(objects: &[Object], part: Part) -> Result<Vec<File>, ManifestError> {
    let fields = if part == Part::PodDisruptionBudget {
        json!({ "replicas": [{ "name": NAME, "count": 2 }] })
    } else {
        json!({})
    };
    let kustomization = of_kind("Component", "kustomize.config.k8s.io/v1alpha1", fields);
    directory(&format!("components/{}", part.name()), objects, &[part], kustomization)
}

fn of_kind(kind: &str, version: &str, mut fields: Value) -> Value {
    fields["kind"] = json!(kind);
    fields["apiVersion"] = json!(version);
    fields
}

/// A directory with a file for each of `parts` that has objects, before the other resources.
fn directory(
    name: &str,
    objects: &[Object],
    parts: &[Part],
    mut kustomization: Value,
) -> Result<Vec<File>, ManifestError> {
    let present = parts.iter().filter(|part| objects.iter().any(|it| it.part == **part));
    let own: Vec<String> = present.clone().map(|part| format!("{}.yaml", part.name())).collect();
    let texts = present.map(|part| format!("{HEADER}{}", documents(objects, &[*part])));
    let mut files: Vec<File> = own.iter().map(|file| format!("{name}/{file}")).zip(texts).collect();
    let others = kustomization["resources"].as_array().cloned().unwrap_or_default();
    kustomization["resources"] = own.into_iter().map(Value::from).chain(others).collect();
    files.push(file(&format!("{name}/kustomization.yaml"), &kustomization)?);
    Ok(files)
}

/// A patch: the operator serves the namespace that it is in, whichever a kustomization chooses.
fn watch_own_namespace(installation: &Installation) -> Value {
    let source = json!({ "fieldRef": { "fieldPath": "metadata.namespace" } });
    let variable = json!({ "name": "FLUX_OPERATOR_NAMESPACE", "valueFrom": source });
    let container = json!({ "name": NAME, "env": [variable] });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": installation.own_namespace() },
        "spec": { "template": { "spec": { "containers": [container] } } },
    })
}

fn file(name: &str, value: &Value) -> Result<File, ManifestError> {
    let text = serde_saphyr::to_string(value);
    let text = text.map_err(|source| ManifestError::Write { part: "a kustomization", source })?;
    Ok((name.to_owned(), format!("{HEADER}{}\n", text.trim_end())))
}
