//! The fields of an object that an API server fills in, and those that nobody may change.

use super::objects::{is_suspended, is_true};
use super::refusal::{Refusal, immutable};
use serde_json::{Value, json};

/// Fields of a Job that nobody may change. (`ValidateJobUpdate` in `pkg/apis/batch/validation`.)
const FIXED_IN_JOBS: &str =
    "selector completionMode podFailurePolicy backoffLimitPerIndex successPolicy managedBy";

/// Parts of a template that decide where its pods go. (`validatePodTemplateUpdate`, in the same place; of
/// affinity only that of nodes.)
const SCHEDULING: [(&str, &[&str]); 2] = [
    ("metadata", &["annotations", "labels"]),
    ("spec", &["nodeSelector", "schedulingGates", "tolerations"]),
];

/// Metadata that only the server writes.
const OF_THE_SERVER: &str = "uid creationTimestamp resourceVersion generation deletionTimestamp \
     deletionGracePeriodSeconds namespace";

/// The port of a Service of type `NodePort` that names none.
const NODE_PORT: u16 = 30_001;

/// Kinds whose changes of the specification are counted.
pub(crate) const COUNTED: [&str; 2] = ["Job", "MiniCluster"];

/// Fills in the fields that `object` leaves to the server; a Service without an address gets `address`.
pub(crate) fn fill_in(object: &mut Value, address: impl FnOnce() -> String) {
    if object["kind"] != "Service" {
        return;
    }
    let spec = &mut object["spec"];
    if spec["clusterIP"].is_null() {
        spec["clusterIP"] = json!(address());
    }
    let is_node_port = spec["type"] == "NodePort";
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let number = port["port"].clone();
        for (field, value) in [("protocol", json!("TCP")), ("targetPort", number)] {
            let _ = port[field].is_null().then(|| port[field] = value);
        }
        if is_node_port && port["nodePort"].is_null() {
            port["nodePort"] = json!(NODE_PORT);
        }
    }
}

/// Gives `new` the metadata of `old` that only the server writes; then refuses it where it changes fixed fields.
pub fn admit(old: &Value, new: &mut Value) -> Result<(), Refusal> {
    for field in OF_THE_SERVER.split(' ') {
        match old["metadata"].get(field) {
            Some(value) => new["metadata"][field] = value.clone(),
            None => drop(new["metadata"].as_object_mut().map(|metadata| metadata.remove(field))),
        }
    }
    let same = |field: &str| {
        let path = format!("/spec/{field}");
        old.pointer(&path).unwrap_or(&Value::Null) == new.pointer(&path).unwrap_or(&Value::Null)
    };
    match old["kind"].as_str().unwrap_or_default() {
        "Job" => {
            if let Some(field) = FIXED_IN_JOBS.split(' ').find(|field| !same(field)) {
                return Err(immutable(&format!("spec.{field}")));
            }
            let may_differ = waits(old) && only_scheduling_differs(old, new);
            if !same("template") && !may_differ {
                return Err(immutable("spec.template"));
            }
            let spec = &new["spec"];
            let elastic =
                spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
            if !same("completions") && !elastic {
                return Err(immutable("spec.completions"));
            }
        }
        "Service" if !same("clusterIP") => return Err(immutable("spec.clusterIP")),
        "Secret" | "ConfigMap" if old["immutable"] == true && old["data"] != new["data"] => {
            return Err(immutable("data"));
        }
        "Pod" if old["spec"] != new["spec"] => return Err(immutable("spec")),
        _ => {}
    }
    if COUNTED.iter().any(|kind| old["kind"] == *kind) && old["spec"] != new["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = json!(generation);
    }
    Ok(())
}

/// True for a Job in which people may change where its pods go: it is suspended, and has none.
/// (`shouldAllowMutablePodTemplate` in `pkg/registry/batch/job`.)
fn waits(job: &Value) -> bool {
    let status = &job["status"];
    let noted = is_true(status, "Suspended");
    let active = status["active"].as_u64().unwrap_or_default();
    is_suspended(job) && (status["startTime"].is_null() || noted) && active == 0
}

fn only_scheduling_differs(old: &Value, new: &Value) -> bool {
    let rest = |job: &Value| {
        let mut template = job["spec"]["template"].clone();
        for (part, fields) in SCHEDULING {
            if let Some(part) = template[part].as_object_mut() {
                part.retain(|name, _| !fields.contains(&&**name));
            }
        }
        template
    };
    rest(old) == rest(new)
}
