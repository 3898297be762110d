//! The status of a pod, as kubelets and others write it.

use super::objects::set_condition;
use super::store::Store;
use jiff::Timestamp;
use serde_json::{Value, json};

/// True for a pod whose containers have started.
pub(crate) fn has_begun(pod: &Value) -> bool {
    pod["status"]["phase"] != "Pending" && !pod["status"]["phase"].is_null()
}

/// Notes on the pod at `path` that Kubernetes removes it, and for what reason.
pub(crate) fn disrupt(store: &mut Store, path: &str, reason: &str) {
    let now = store.clock.now();
    store.change_status(path, |status| {
        set_condition(status, "DisruptionTarget", true, [reason, reason], now);
    });
}

/// Notes on the pod at `path` that it is not ready, as its node does not answer.
pub fn set_unready(store: &mut Store, path: &str) {
    let now = store.clock.now();
    store.change_status(path, |status| set_ready(status, false, now));
}

pub(crate) fn set_ready(status: &mut Value, ready: bool, now: Timestamp) {
    set_condition(status, "Ready", ready, ["", ""], now);
}

/// The status of all containers of `pod`, each in this state. The runner has the name of its MiniCluster.
pub(crate) fn containers(pod: &Value, state: &Value, ready: bool) -> Value {
    let all = pod["spec"]["containers"].as_array().into_iter().flatten();
    all.map(|container| {
        json!({
            "name": container["name"], "image": "", "imageID": "", "ready": ready, "started": ready,
            "restartCount": 0, "state": state,
            "containerID": (has_begun(pod) || state["running"].is_object()).then_some("containerd://1"),
        })
    })
    .collect()
}

/// The status of a pod that has a node and whose containers do not run.
pub(crate) fn waiting(pod: &Value, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    status["phase"] = json!("Pending");
    set_condition(&mut status, "PodScheduled", true, ["", ""], now);
    status["containerStatuses"] =
        containers(pod, &json!({ "waiting": { "reason": "ContainerCreating" } }), false);
    status
}

/// The status of a pod whose containers run, since now unless they ran already.
pub(crate) fn running(pod: &Value, ready: bool, now: Timestamp) -> Value {
    let mut status = pod["status"].clone();
    let since = status["containerStatuses"][0]["state"]["running"]["startedAt"].clone();
    let since = if since.is_null() { json!(now.to_string()) } else { since };
    status["phase"] = json!("Running");
    status["containerStatuses"] =
        containers(pod, &json!({ "running": { "startedAt": since } }), ready);
    set_ready(&mut status, ready, now);
    status
}
