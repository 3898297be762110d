//! Corrections without the user: old spellings, and fields that have moved.

use super::differences::{FieldNote, containers, mentions, pointer};
use flux_api::crd::MiniCluster;
use kube::Resource as _;
use serde_json::{Map, Value};

const SPELLINGS: [(&str, &str); 3] = [
    ("fluxuser", "fluxUser"),
    ("commands.preWorker", "commands.workerPre"),
    ("commands.preBroker", "commands.brokerPre"),
];

const HEADLESS_NAME: &str = "flux-service";

pub(super) fn correct(document: &mut Value) -> Vec<FieldNote> {
    let mut notes = Vec::new();
    identity(document, &mut notes);
    let paths: Vec<String> = containers(&document["spec"]).map(|(path, _)| path).collect();
    for path in &paths {
        let Some(container) = document.pointer_mut(&pointer(path)) else { continue };
        spellings(path, container, &mut notes);
        capabilities(path, container, &mut notes);
        existing_volumes(path, container, &mut notes);
    }
    volumes(document, &paths, &mut notes);
    headless_name(document, &mut notes);
    notes
}

/// Removes the field at `path`, and the objects around it that are empty then. Returns whether the field existed.
pub(super) fn remove(document: &mut Value, path: &str) -> bool {
    let Some((around, name)) = path.rsplit_once('.') else { return false };
    let Some(Value::Object(fields)) = document.pointer_mut(&pointer(around)) else { return false };
    let existed = fields.remove(name).is_some();
    // Without an element of a list, the paths of the later elements would change.
    if existed && fields.is_empty() && !around.ends_with(']') {
        remove(document, around);
    }
    existed
}

fn identity(document: &mut Value, notes: &mut Vec<FieldNote>) {
    let (version, kind) = (MiniCluster::api_version(&()), MiniCluster::kind(&()));
    let group = format!("{}/", MiniCluster::group(&()));
    let is_ours = document["apiVersion"].as_str().is_some_and(|it| it.starts_with(&group));
    for (field, served) in [("apiVersion", version), ("kind", kind)] {
        if is_ours && document[field] != *served {
            document[field] = served.clone().into_owned().into();
            notes.push((field.to_owned(), format!("changed to {served}")));
        }
    }
}

fn spellings(path: &str, container: &mut Value, notes: &mut Vec<FieldNote>) {
    for (old, new) in SPELLINGS {
        let Some(value) = container.pointer(&pointer(old)).cloned() else { continue };
        if container.pointer(&pointer(new)).is_some() {
            continue;
        }
        let (around, name) = new.rsplit_once('.').unwrap_or(("", new));
        if let Some(Value::Object(fields)) = container.pointer_mut(&pointer(around)) {
            fields.insert(name.to_owned(), value);
            fields.remove(old.rsplit('.').next().unwrap_or(old));
            notes.push((format!("{path}.{old}"), format!("renamed to {new}")));
        }
    }
}

fn capabilities(path: &str, container: &mut Value, notes: &mut Vec<FieldNote>) {
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
    notes.push((old, "moved to securityContext.capabilities.add".to_owned()));
}

/// Moves existing volumes to the volumes, which name their sources in the same way, unless a volume has the name.
fn existing_volumes(path: &str, container: &mut Value, notes: &mut Vec<FieldNote>) {
    let Value::Object(container) = container else { return };
    let Some(Value::Object(mut existing)) = container.remove("existingVolumes") else { return };
    let mut left = Map::new();
    if let Some(volumes) = object_in(container, "volumes") {
        for (name, volume) in std::mem::take(&mut existing) {
            if volumes.contains_key(&name) {
                left.insert(name, volume);
            } else {
                let path = format!("{path}.existingVolumes.{name}");
                notes.push((path, "moved to volumes".to_owned()));
                volumes.insert(name, volume);
            }
        }
    }
    left.extend(existing);
    if !left.is_empty() {
        container.insert("existingVolumes".to_owned(), left.into());
    }
}

/// Moves each directory of the nodes in `spec.volumes` to the containers that mount it.
fn volumes(document: &mut Value, paths: &[String], notes: &mut Vec<FieldNote>) {
    let Some(Value::Object(all)) = document.pointer("/spec/volumes").cloned() else { return };
    for (name, volume) in all {
        let Some(host_path) = directory(&volume) else { continue };
        let mut is_mounted = false;
        for path in paths {
            let path = format!("{}/volumes/{}", pointer(path), name.replace('/', "~1"));
            if let Some(Value::Object(mount)) = document.pointer_mut(&path)
                && mount.keys().all(|key| key == "path" || key == "readOnly")
            {
                mount.insert("hostPath".to_owned(), host_path.clone());
                is_mounted = true;
            }
        }
        let path = format!("spec.volumes.{name}");
        if is_mounted && remove(document, &path) {
            notes.push((path, "moved to the hostPath of the containers' volumes".to_owned()));
        }
    }
}

fn directory(volume: &Value) -> Option<Value> {
    let fields = volume.as_object()?;
    let is_directory = fields
        .iter()
        .all(|(name, value)| name == "path" || (name == "storageClass" && value == "hostpath"));
    fields.get("path").filter(|path| is_directory && path.is_string()).cloned()
}

fn headless_name(document: &mut Value, notes: &mut Vec<FieldNote>) {
    let Value::Object(specification) = &mut document["spec"] else { return };
    let is_named = specification.values().any(|field| mentions(field, HEADLESS_NAME));
    if !is_named {
        return;
    }
    let Some(network) = object_in(specification, "network") else { return };
    if !network.contains_key("headlessName") {
        network.insert("headlessName".to_owned(), HEADLESS_NAME.into());
        let path = "spec.network.headlessName".to_owned();
        notes.push((path, format!("set to {HEADLESS_NAME}, as the file uses that name")));
    }
}

fn object_in<'fields>(
    fields: &'fields mut Map<String, Value>,
    name: &str,
) -> Option<&'fields mut Map<String, Value>> {
    fields.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}
