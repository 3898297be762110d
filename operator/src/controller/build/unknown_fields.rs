//! Fields of `spec.pod.overlay` that are newer than the types of this release.

use crate::cluster::Cluster;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

/// `job` of `cluster`, as it is sent to the API server: with those fields, of which that knows what to do.
pub(crate) fn document(cluster: &Cluster, job: &Job) -> Value {
    let mut document = json!(job);
    let overlay = cluster.pod.overlay.as_ref();
    let read = overlay.and_then(|it| serde_json::from_value::<PodSpec>(it.clone()).ok());
    if let (Some(overlay), Some(read)) = (overlay, read) {
        add_unread(&mut document["spec"]["template"]["spec"], overlay, &json!(read));
    }
    document
}

/// Adds to `merged`, which has all that was `read` of `given`, what was not.
fn add_unread(merged: &mut Value, given: &Value, read: &Value) {
    for (name, given) in given.as_object().into_iter().flatten() {
        match (merged.get_mut(name), read.get(name)) {
            (Some(merged), Some(read)) => add_unread(merged, given, read),
            (None, None) if !given.is_null() => merged[name] = given.clone(),
            _ => {}
        }
    }
    // Lists with a key are merged by it: an element may be anywhere.
    let pairs = given.as_array().zip(read.as_array()).into_iter();
    for (given, read) in pairs.flat_map(|(given, read)| given.iter().zip(read)) {
        let mut all = merged.as_array_mut().into_iter().flatten();
        if let Some(place) = all.find(|place| is_made_of(place, read)) {
            add_unread(place, given, read);
        }
    }
}

/// True when `read`, an element of a list, was merged into `place`: what is one value in it is the same there.
fn is_made_of(place: &Value, read: &Value) -> bool {
    let mut fields = read.as_object().into_iter().flatten();
    fields.all(|(name, value)| value.is_array() || value.is_object() || place[name] == *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built, cluster};

    #[test]
    fn what_this_release_does_not_know_is_sent_as_it_is_given() {
        let overlay = json!({
            "priorityClassName": "batch",
            "nodeName": null,
            "newField": { "a": [1] },
            "securityContext": { "newInContext": true },
            "containers": [
                { "name": "beside", "image": "b", "newInContainer": "x" },
                { "name": "hello", "env": [{ "name": "A", "value": "1", "newInVariable": 2 }] },
            ],
        });
        let beside = json!({ "name": "beside", "command": "true", "runFlux": false });
        let containers = json!([{ "command": "echo hello" }, beside]);
        let spec = json!({ "containers": containers, "pod": { "overlay": overlay } });
        let cluster = cluster(&spec);
        let job = built(&cluster, 1).job;
        let document = document(&cluster, &job);
        let spec = &document["spec"]["template"]["spec"];
        assert_eq!(spec["newField"], json!({ "a": [1] }));
        assert_eq!(spec["securityContext"]["newInContext"], true);
        let of = |name: &str| {
            let containers = spec["containers"].as_array().unwrap();
            containers.iter().find(|container| container["name"] == name).unwrap()
        };
        assert_eq!(of("beside")["newInContainer"], "x");
        let variables = of("hello")["env"].as_array().unwrap();
        assert!(variables.iter().any(|it| it["name"] == "A" && it["newInVariable"] == 2));
        // All else is what was built.
        assert_eq!(serde_json::from_value::<Job>(document.clone()).unwrap(), job);
        assert!(spec.get("nodeName").is_none());
    }
}
