//! What can be corrected without asking anybody: old spellings, and fields that have moved.

use super::Said;
use super::place::{containers, mentions, pointer};
use flux_api::crd::MiniCluster;
use kube::Resource as _;
use serde_json::{Map, Value};

/// Spellings that mean the same, the old one first.
const SPELLINGS: [(&str, &str); 3] = [
    ("fluxuser", "fluxUser"),
    ("commands.preWorker", "commands.workerPre"),
    ("commands.preBroker", "commands.brokerPre"),
];

/// The name that Go gave the headless Service of every MiniCluster.
const HEADLESS_NAME: &str = "flux-service";

/// Corrects what can be, and says what.
pub(super) fn correct(document: &mut Value) -> Vec<Said> {
    let mut said = Vec::new();
    identity(document, &mut said);
    let places: Vec<String> = containers(&document["spec"]).map(|(path, _)| path).collect();
    for path in &places {
        let Some(container) = document.pointer_mut(&pointer(path)) else { continue };
        spellings(path, container, &mut said);
        capabilities(path, container, &mut said);
        existing_volumes(path, container, &mut said);
    }
    volumes(document, &places, &mut said);
    headless_name(document, &mut said);
    said
}

/// Removes the field at `path`, and what is around it if that is empty then. True if it was there.
pub(super) fn without(document: &mut Value, path: &str) -> bool {
    let Some((around, name)) = path.rsplit_once('.') else { return false };
    let Some(Value::Object(fields)) = document.pointer_mut(&pointer(around)) else { return false };
    let was_there = fields.remove(name).is_some();
    // Not an element of a list: the others would move.
    if was_there && fields.is_empty() && !around.ends_with(']') {
        without(document, around);
    }
    was_there
}

fn identity(document: &mut Value, said: &mut Vec<Said>) {
    let (version, kind) = (MiniCluster::api_version(&()), MiniCluster::kind(&()));
    let group = format!("{}/", MiniCluster::group(&()));
    let is_ours = document["apiVersion"].as_str().is_some_and(|it| it.starts_with(&group));
    for (field, served) in [("apiVersion", version), ("kind", kind)] {
        if is_ours && document[field] != *served {
            document[field] = served.clone().into_owned().into();
            said.push((field.to_owned(), format!("is {served}")));
        }
    }
}

fn spellings(path: &str, container: &mut Value, said: &mut Vec<Said>) {
    for (old, new) in SPELLINGS {
        let Some(value) = container.pointer(&pointer(old)).cloned() else { continue };
        if container.pointer(&pointer(new)).is_some() {
            continue;
        }
        let (around, name) = new.rsplit_once('.').unwrap_or(("", new));
        if let Some(Value::Object(fields)) = container.pointer_mut(&pointer(around)) {
            fields.insert(name.to_owned(), value);
            fields.remove(old.rsplit('.').next().unwrap_or(old));
            said.push((format!("{path}.{old}"), format!("is {new}")));
        }
    }
}

/// `addCapabilities` is Kubernetes' `capabilities.add`.
fn capabilities(path: &str, container: &mut Value, said: &mut Vec<Said>) {
    let Some(Value::Object(context)) = container.get_mut("securityContext") else { return };
    let Some(Value::Array(old)) = context.get("addCapabilities").cloned() else { return };
    let Some(capabilities) = object_in(context, "capabilities") else { return };
    let add = capabilities.entry("add").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(add) = add else { return };
    for capability in old {
        if !add.contains(&capability) {
            add.push(capability);
        }
    }
    context.remove("addCapabilities");
    let old = format!("{path}.securityContext.addCapabilities");
    said.push((old, "is securityContext.capabilities.add".to_owned()));
}

/// Those whose name is free become volumes, which name their sources in the same way.
fn existing_volumes(path: &str, container: &mut Value, said: &mut Vec<Said>) {
    let Value::Object(container) = container else { return };
    let Some(Value::Object(mut existing)) = container.remove("existingVolumes") else { return };
    let mut left = Map::new();
    if let Some(volumes) = object_in(container, "volumes") {
        for (name, volume) in std::mem::take(&mut existing) {
            if volumes.contains_key(&name) {
                left.insert(name, volume);
            } else {
                said.push((format!("{path}.existingVolumes.{name}"), "is in volumes".to_owned()));
                volumes.insert(name, volume);
            }
        }
    }
    left.extend(existing);
    if !left.is_empty() {
        container.insert("existingVolumes".to_owned(), left.into());
    }
}

/// A directory of the nodes that `spec.volumes` names goes to the containers that mount it.
fn volumes(document: &mut Value, places: &[String], said: &mut Vec<Said>) {
    let Some(Value::Object(all)) = document.pointer("/spec/volumes").cloned() else { return };
    for (name, volume) in all {
        let Some(host_path) = directory(&volume) else { continue };
        let mut is_mounted = false;
        for path in places {
            let place = format!("{}/volumes/{}", pointer(path), name.replace('/', "~1"));
            if let Some(Value::Object(mount)) = document.pointer_mut(&place)
                && mount.keys().all(|key| key == "path" || key == "readOnly")
            {
                mount.insert("hostPath".to_owned(), host_path.clone());
                is_mounted = true;
            }
        }
        let path = format!("spec.volumes.{name}");
        if is_mounted && without(document, &path) {
            said.push((path, "is the hostPath of the containers' volumes".to_owned()));
        }
    }
}

/// The path of a volume that is a directory of the node, and nothing else.
fn directory(volume: &Value) -> Option<Value> {
    let fields = volume.as_object()?;
    let is_directory = fields
        .iter()
        .all(|(name, value)| name == "path" || (name == "storageClass" && value == "hostpath"));
    fields.get("path").filter(|path| is_directory && path.is_string()).cloned()
}

/// Files that name Go's Service get one of that name.
fn headless_name(document: &mut Value, said: &mut Vec<Said>) {
    let Value::Object(specification) = &mut document["spec"] else { return };
    let is_named = specification.values().any(|field| mentions(field, HEADLESS_NAME));
    if !is_named {
        return;
    }
    let Some(network) = object_in(specification, "network") else { return };
    if !network.contains_key("headlessName") {
        network.insert("headlessName".to_owned(), HEADLESS_NAME.into());
        let path = "spec.network.headlessName".to_owned();
        said.push((path, format!("is {HEADLESS_NAME}, which the file names")));
    }
}

/// The object that is the field `name`, made if there is none.
fn object_in<'fields>(
    fields: &'fields mut Map<String, Value>,
    name: &str,
) -> Option<&'fields mut Map<String, Value>> {
    fields.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}
