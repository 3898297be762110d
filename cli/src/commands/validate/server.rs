//! `validate --dry-run=server`: lets the API server check the objects of a MiniCluster with a dry run.

use crate::commands::render::objects_of;
use crate::prelude::*;
use flux_api::cluster::validate::Defaults;
use flux_api::images::AGENT_IMAGE;
use flux_api::objects::Images;
use flux_api::offline::{Document, Remark};
use kube::api::{ApiResource, DynamicObject, PostParams, TypeMeta};
use kube::core::{GroupVersionKind, Status};

/// Adds the refusals of the API server to the findings of `document`, unless it has faults already.
pub(super) async fn check(connection: &Connection, document: &mut Document) -> Result<()> {
    let Some(object) = document.object.as_ref().filter(|_| document.findings.faults.is_empty())
    else {
        return Ok(());
    };
    let mut refused = BTreeMap::new();
    let namespace = object.namespace().unwrap_or_else(|| connection.namespace.clone());
    let images =
        Images { agent: AGENT_IMAGE.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() };
    let rendered = objects_of(object.clone(), &Defaults::default(), &images, &namespace)?;
    for made in std::iter::once(json!(object)).chain(rendered) {
        if let Some(status) = refusal(connection, &namespace, &made).await? {
            refused.extend(violations(object, &made, &status));
        }
    }
    let name = Some(object.name_any());
    let remarks: Vec<Remark> = refused
        .into_iter()
        .map(|(message, path)| {
            let (file, line) = (document.findings.file.clone(), Some(document.line_of(&path)));
            Remark { file, line, name: name.clone(), path, message }
        })
        .collect();
    document.findings.faults.extend(remarks);
    Ok(())
}

/// Asks the API server to create `made` in a dry run, and returns its refusal. A name that is taken is no refusal: the
/// object may already exist.
async fn refusal(connection: &Connection, namespace: &str, made: &Value) -> Result<Option<Status>> {
    let mut made = made.clone();
    // The owner does not exist yet.
    made["metadata"]["ownerReferences"] = Value::Null;
    let object: DynamicObject = serde_json::from_value(made).context("read a rendered object")?;
    let kind = object.types.clone().unwrap_or_default();
    let TypeMeta { api_version, kind } = &kind;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(connection.client.clone(), namespace, &resource);
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&parameters, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(*status)),
        Err(error) => Err(error)
            .with_context(|| format!("ask the API server about {kind} {}", object.name_any())),
    }
}

/// The messages of `status` about `made`, each with the field of `object` that it concerns, or an empty path.
fn violations(object: &MiniCluster, made: &Value, status: &Status) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let what = format!("{} {:?}", text(&made["kind"]), text(&made["metadata"]["name"]));
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.filter(|cause| !cause.field.is_empty());
    let all: Vec<(String, String)> = causes
        .map(|cause| {
            let path = field(object, made, &cause.field).unwrap_or_default();
            let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
            let message =
                format!("{field}the API server refuses {what}: {}: {}", cause.field, cause.message);
            (message, path)
        })
        .collect();
    if all.is_empty() {
        return vec![(format!("the API server refuses {what}: {}", status.message), String::new())];
    }
    all
}

/// The field of `object` from which the field `path` of `made` comes.
fn field(object: &MiniCluster, made: &Value, path: &str) -> Option<String> {
    let (pod, path) = match made["kind"].as_str()? {
        "MiniCluster" => return Some(path.to_owned()),
        "Job" => (&made["spec"]["template"]["spec"], path.strip_prefix("spec.template.")?),
        "Pod" => (&made["spec"], path),
        _ => return None,
    };
    let spec = json!(object.spec);
    let has = |fields: &Value, path: &str| {
        fields.get(path.split(['.', '[']).next().unwrap_or(path)).is_some()
    };
    let path = path.strip_prefix("spec.").unwrap_or(path).trim_start_matches("metadata.");
    let is_container = |(list, _): &(&str, &str)| ["containers", "initContainers"].contains(list);
    let Some((list, rest)) = path.split_once('[').filter(is_container) else {
        return has(&spec["pod"], path).then(|| format!("spec.pod.{path}"));
    };
    let (index, rest) = rest.split_once(']')?;
    let started = &pod[list][index.parse::<usize>().ok()?];
    let list = if made["kind"] == "Pod" { "services" } else { "containers" };
    let all = spec[list].as_array()?;
    let with = |field: &str, value: &Value| all.iter().position(|it| it[field] == *value);
    let position = if started["name"] == object.name_any() {
        with("runFlux", &json!(true)).or_else(|| with("runFlux", &Value::Null))?
    } else {
        with("name", &started["name"])?
    };
    let is_own = rest.strip_prefix('.').is_some_and(|rest| has(&all[position], rest));
    Some(format!("spec.{list}[{position}]{}", if is_own { rest } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_field_of_the_minicluster() {
        let object: MiniCluster = serde_saphyr::from_str(
            "{apiVersion: flux-framework.org/v1alpha2, kind: MiniCluster, metadata: {name: hello}, spec: { \
             containers: [{name: web, image: b, runFlux: false}, {image: a, resources: {}}], \
             services: [{name: db, image: c}], pod: {labels: {a: b}}}}",
        )
        .unwrap();
        let init = json!([{ "name": "flux-view" }, { "name": "web" }]);
        let pod = json!({ "containers": [{ "name": "hello" }], "initContainers": init });
        let job = json!({ "kind": "Job", "spec": { "template": { "spec": pod } } });
        let services = json!({ "kind": "Pod", "spec": { "containers": [{ "name": "db" }] } });
        for (made, path, expected) in [
            (&job, "template.spec.containers[0].resources.x[y]", "containers[1].resources.x[y]"),
            (&job, "template.spec.containers[0].volumeMounts[4].name", "containers[1]"),
            (&job, "template.spec.initContainers[1].image", "containers[0].image"),
            (&job, "template.spec.initContainers[0].image", ""),
            (&job, "template.metadata.labels", "pod.labels"),
            (&job, "completions", ""),
            (&services, "containers[0].image", "services[0].image"),
            (&json!({ "kind": "Service" }), "ports", ""),
        ] {
            let found = field(&object, made, &format!("spec.{path}")).unwrap_or_default();
            assert_eq!(found.strip_prefix("spec.").unwrap_or_default(), expected, "{path}");
        }
        let status = Status::failure("exceeded quota", "Forbidden").with_code(403);
        let messages = violations(&object, &job, &status);
        assert_eq!(messages[0].0, "the API server refuses Job \"\": exceeded quota");
    }
}
