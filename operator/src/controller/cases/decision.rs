//! The decision of a case, as lines of text.

use super::case::{Conclusion, lifecycle};
use crate::controller::decide::change::Change;
use crate::controller::decide::start_deadline::StartDeadline;
use crate::controller::decide::{Plan, next_reconcile};
use crate::controller::observe::Observed;
use flux_api::cluster::QUEUED_SIZE_ANNOTATION;
use flux_api::objects::{AGENT_CONFIG_KEY, SUSPENDED_ANNOTATION};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde::Serialize;
use serde_json::{Value, json};

/// Annotations of a new Job that are shown.
const NOTES: [&str; 2] = [QUEUED_SIZE_ANNOTATION, SUSPENDED_ANNOTATION];

/// Lifecycle, writes, and what the plan has for the status.
pub(super) fn lines(conclusion: &Conclusion) -> Vec<String> {
    let Conclusion { live, plan, .. } = conclusion;
    let mut lines = vec![lifecycle(live)];
    lines.extend(writes(live, plan));
    for (what, list) in [
        ("no effect", &plan.not_acted_on),
        ("refused", &plan.refused),
        ("next run", &plan.deferred),
        ("dropped", &plan.dropped),
        ("lacking", &plan.lacking),
    ] {
        lines.extend(list.iter().map(|it| format!("{what}: {it}")));
    }
    lines.extend(plan.violations.as_ref().map(|it| format!("invalid: {it}")));
    lines.extend(plan.obstacle.as_ref().map(|it| format!("{}: {it}", it.category())));
    if plan.start_deadline != StartDeadline::None {
        lines.push(format!("start deadline: {:?}", plan.start_deadline));
    }
    lines.extend(plan.autoscale.as_ref().map(|it| format!("size by demand: {}", it.size)));
    lines.extend(plan.api.as_ref().map(|it| format!("API: {}, Secret {}", it.url, it.secret)));
    let size = plan.maximum_size.filter(|size| *size != 4);
    lines.extend(size.map(|size| format!("maximum size: {size}")));
    lines.extend(next_reconcile(live, plan).map(|next| format!("next reconcile: {next:?}")));
    lines
}

fn writes(live: &Observed, plan: &Plan) -> Vec<String> {
    let writes = &plan.writes;
    let of_service = |change: &Change<Service>| {
        let Change::Patch { name, .. } = change else { return line("Service", change, None) };
        line("Service", change, live.services.get(name))
    };
    let mut lines: Vec<String> = writes.services.iter().filter_map(of_service).collect();
    lines.extend(writes.secrets.iter().map(|secret| line_of_secret(secret.expose())));
    lines.extend(line("Pod", &writes.services_pod, live.services_pod.as_ref()));
    lines.extend(line("Pod", &writes.held_pod, live.pods.held.as_ref()));
    lines.extend(lines_of_config(live.config_map.as_ref(), &writes.config_map));
    lines.extend(writes.exposed.iter().filter_map(of_service));
    if let Some((scheduler, change)) = &writes.pod_group {
        let (_, live) = live.gang.iter().find(|(it, _)| it == scheduler).unwrap();
        lines.extend(line(&format!("PodGroup of {scheduler:?}"), change, live.as_ref()));
    }
    lines.extend(writes.aliases.iter().filter_map(of_service));
    lines.extend(line("Job", &writes.job, live.job.as_ref()));
    lines
}

fn line<K: Serialize>(kind: &str, change: &Change<K>, live: Option<&K>) -> Option<String> {
    match change {
        Change::Keep => None,
        Change::Create(object) => Some(created(kind, &json!(object))),
        Change::Patch { name, patch } => {
            let precondition = ["uid", "resourceVersion"].map(|it| &patch["metadata"][it]);
            assert!(!precondition.contains(&&Value::Null), "the write may hit another object");
            let difference = difference(patch, &json!(live)).to_string().replace("{}", "");
            Some(format!("patch {kind} {name} {difference}").trim_end().to_owned())
        }
        Change::Delete { name, uid, .. } => {
            assert!(uid.is_some(), "the deletion may hit another object");
            Some(format!("delete {kind} {name}"))
        }
    }
}

/// The part of `patch` that `live` does not have.
fn difference(patch: &Value, live: &Value) -> Value {
    let Some(fields) = patch.as_object() else { return patch.clone() };
    let other = fields.iter().filter(|(name, value)| live.get(name) != Some(value));
    let other = other.map(|(name, value)| (name.clone(), difference(value, &live[name])));
    other.filter(|(_, value)| *value != json!({})).collect::<serde_json::Map<_, _>>().into()
}

/// A new object, with what suspends it and what a queue or a scheduler reads.
fn created(kind: &str, object: &Value) -> String {
    let mut line = format!("create {kind} {}", object["metadata"]["name"].as_str().unwrap());
    let (spec, template) = (&object["spec"], &object["spec"]["template"]);
    let mut add = |what: &str, value: &Value| {
        if !value.is_null() {
            line.extend([format!(", {what}: {value}")]);
        }
    };
    if kind.starts_with("PodGroup") {
        add("spec", spec);
    }
    add("suspend", &spec["suspend"]);
    for (whose, metadata) in [("", &object["metadata"]), ("pods have ", &template["metadata"])] {
        for field in ["labels", "annotations"] {
            for (key, value) in metadata[field].as_object().into_iter().flatten() {
                if key.contains("kueue")
                    || key.starts_with("scheduling")
                    || NOTES.contains(&key.as_str())
                {
                    add(&format!("{whose}{key}"), value);
                }
            }
        }
    }
    for field in ["schedulerName", "schedulingGroup"] {
        add(&format!("pods have {field}"), &template["spec"][field]);
    }
    line
}

/// A new Secret, with the beginnings of its values.
fn line_of_secret(secret: &Secret) -> String {
    let values = secret.string_data.iter().flatten();
    let values: Vec<_> = values.map(|(key, value)| format!("{key}: {value:.12}")).collect();
    let name = secret.metadata.name.as_deref().unwrap();
    format!("create Secret {name} {}", values.join(", ").replace('\n', " "))
}

/// The change of the agents' `ConfigMap`, with the lines of their configuration that differ.
fn lines_of_config(live: Option<&ConfigMap>, change: &Change<ConfigMap>) -> Vec<String> {
    let mut change = change.clone();
    let mut lines = Vec::new();
    if let Change::Patch { patch, .. } = &mut change
        && let Some(data) = patch["data"].as_object_mut()
        && let Some(Value::String(new)) = data.remove(AGENT_CONFIG_KEY)
    {
        let old = &live.unwrap().data.as_ref().unwrap()[AGENT_CONFIG_KEY];
        let only_in = |one: &str, other: &str, sign: &str| -> Vec<String> {
            let lines = one.lines().filter(|line| !other.lines().any(|it| it == *line));
            lines.map(|line| format!("    {sign} {line}")).collect()
        };
        lines = [only_in(old, &new, "-"), only_in(&new, old, "+")].concat();
    }
    line("ConfigMap", &change, live).into_iter().chain(lines).collect()
}
