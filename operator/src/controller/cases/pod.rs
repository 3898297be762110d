//! A pod of a case.

use crate::controller::fixtures::at;
use flux_contract::labels;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodCase {
    #[serde(default)]
    name: Option<String>,
    /// The second of its creation.
    #[serde(default)]
    made: Option<i64>,
    phase: String,
    #[serde(default)]
    ready: bool,
    /// The state of each container (see [`state`]), or, as fields of its status, with the states `is` and `was`.
    #[serde(default)]
    containers: BTreeMap<String, Value>,
    /// A merge patch of the pod.
    #[serde(default)]
    also: Option<Value>,
}

impl PodCase {
    pub(crate) fn pod(&self) -> Pod {
        let name = self.name.as_deref().unwrap_or("hello-0-abcde");
        let index = name.split('-').nth(1).unwrap();
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let containers: Vec<_> = self.containers.iter().map(container).collect();
        let mut pod = json!({
            "metadata": {
                "name": name, "namespace": "apps", "uid": name, "creationTimestamp": self.made.map(at),
                "labels": { labels::COMPLETION_INDEX: index },
            },
            "status": {
                "phase": self.phase, "containerStatuses": containers,
                "conditions": if self.ready { ready } else { json!([]) },
            },
        });
        if let Some(also) = &self.also {
            json_patch::merge(&mut pod, also);
        }
        serde_json::from_value(pod).unwrap()
    }
}

fn container((name, given): (&String, &Value)) -> Value {
    let mut status = if given.is_string() { json!({ "is": given }) } else { given.clone() };
    let fields = status.as_object_mut().unwrap();
    fields.insert("name".to_owned(), json!(name));
    for (word, field) in [("is", "state"), ("was", "lastState")] {
        if let Some(text) = fields.remove(word) {
            fields.insert(field.to_owned(), state(text.as_str().unwrap()));
        }
    }
    status
}

/// `running`, `waiting REASON MESSAGE`, or `ended CODE REASON MESSAGE`. A container begins at second 200 and ends at second 190.
fn state(text: &str) -> Value {
    match text.splitn(4, ' ').collect::<Vec<_>>()[..] {
        ["running"] => json!({ "running": { "startedAt": at(200) } }),
        ["waiting", reason, message] => {
            json!({ "waiting": { "reason": reason, "message": message } })
        }
        ["ended", code, reason, ref message @ ..] => json!({ "terminated": {
            "exitCode": code.parse::<i32>().unwrap(), "reason": reason, "message": message.first(),
            "finishedAt": at(190),
        } }),
        _ => panic!("no state of a container: {text}"),
    }
}
