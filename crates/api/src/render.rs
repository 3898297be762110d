//! Every object that is made of a MiniCluster, decided as a reconcile decides, without a cluster.

use super::build::{Images, Services, services};
use super::decide::change::Change;
use super::decide::{Plan, Request, decide};
use super::observe::Live;
use super::observe::demand::Answer;
use super::schedulers::gang::Scheduler;
use crate::cluster::Cluster;
use crate::cluster::validate::{Defaults, Violations, validate};
use crate::crd::MiniCluster;
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;

/// Stands where the API server chooses a uid.
pub const UNKNOWN_UID: &str = "00000000-0000-0000-0000-000000000000";

/// What `object` means to an operator with these `defaults`.
pub fn cluster(object: &MiniCluster, defaults: &Defaults) -> Result<Cluster, Violations> {
    let mut object = object.clone();
    object.metadata.uid.get_or_insert_with(|| UNKNOWN_UID.to_owned());
    object.metadata.generation.get_or_insert(1);
    validate(&object, defaults)
}

/// The objects that a reconcile would create of `cluster` in an empty namespace, in the order in which it does. What
/// only a cluster knows is left out: the address of the lead's Service in `agent.toml`, the content of the Secret,
/// which is random or the user's own, and the token of an API with its Secret. All nodes are taken to mount images, and the schedulers for gangs to be there.
pub fn render(cluster: &Cluster, images: &Images) -> Result<Vec<Value>> {
    let Services { headless, lead, .. } = services(cluster);
    let request = Request {
        generation: 1,
        now: Time(Timestamp::UNIX_EPOCH),
        expires: false,
        cluster: Ok(cluster.clone()),
        answer: Answer::None,
        images,
        image_volumes: Ok(()),
        rest_token: None,
        draw: |bytes| {
            bytes.fill(0);
            Ok(())
        },
    };
    let gang = Scheduler::ALL.map(|scheduler| (scheduler, None)).to_vec();
    let mut live = Live { gang, ..Live::default() };
    // The others are decided once it is there.
    live.services.insert(lead.name_any(), lead.clone());
    let decided = |live: &Live| match decide(&request, live) {
        Plan { obstacle: Some(obstacle), .. } => Err(obstacle),
        plan => Ok(plan.writes),
    };
    let writes = decided(&live)?;
    let mut all = vec![document(&headless)?, document(&lead)?];
    for secret in &writes.secrets {
        let mut secret = secret.expose().clone();
        secret.string_data = None;
        all.push(document(&secret)?);
    }
    all.extend(created(&writes.config_map)?);
    if let Some((_, pod_group)) = &writes.pod_group {
        all.extend(created(pod_group)?);
    }
    for service in writes.exposed.iter().chain(&writes.aliases) {
        all.extend(created(service)?);
    }
    all.extend(created(&writes.job)?);
    if let Change::Create(job) = writes.job {
        live.job = Some(*job);
        all.extend(created(&decided(&live)?.services_pod)?);
    }
    Ok(all)
}

fn created<K: Serialize>(change: &Change<K>) -> Result<Option<Value>> {
    match change {
        Change::Create(object) => document(object).map(Some),
        Change::Keep | Change::Patch { .. } | Change::Delete { .. } => Ok(None),
    }
}

fn document<K: Serialize>(object: &K) -> Result<Value> {
    serde_json::to_value(object).context("write the object as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures;
    use serde_json::json;

    fn rendered(spec: &Value) -> Vec<Value> {
        render(&fixtures::cluster(spec), &fixtures::images("agent")).unwrap()
    }

    #[test]
    fn everything_that_a_specification_asks_for_is_there_in_the_order_of_its_creation() {
        let all = rendered(&json!({
            "services": [{ "name": "db" }],
            "scheduling": { "gang": "PodGroup" },
            "containers": [
                { "command": "echo hello" }, { "name": "web", "runFlux": false, "ports": [80] },
            ],
        }));
        let names = all.iter().map(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
        let expected = [
            r#""Service" "hello""#,
            r#""Service" "hello-lead""#,
            r#""Secret" "hello-curve-"#,
            r#""ConfigMap" "hello-agent""#,
            r#""PodGroup" "hello""#,
            r#""Service" "hello-web""#,
            r#""Service" "web""#,
            r#""Job" "hello""#,
            r#""Pod" "hello-services""#,
        ];
        let names: Vec<String> = names.collect();
        assert_eq!(names.len(), expected.len(), "{names:?}");
        for (name, expected) in names.iter().zip(expected) {
            assert!(name.starts_with(expected), "{name} {expected}");
        }
    }

    #[test]
    fn the_pod_of_the_services_is_not_shown_of_what_is_suspended() {
        let all = rendered(&json!({ "services": [{ "name": "db" }], "suspend": true }));
        assert!(all.iter().all(|object| object["kind"] != "Pod"), "{all:?}");
    }

    #[test]
    fn nothing_of_a_certificate_is_shown() {
        let secret = &rendered(&json!({}))[2];
        assert_eq!(secret["kind"], "Secret");
        assert_eq!((&secret["data"], &secret["stringData"]), (&Value::Null, &Value::Null));
        let own = rendered(&json!({ "flux": { "curveCertSecret": "mine" } }));
        assert!(own.iter().all(|object| object["kind"] != "Secret"));
    }

    #[test]
    fn the_method_is_that_of_the_specification_or_images() {
        let agent_config = |spec: &Value| rendered(spec)[3]["data"]["agent.toml"].to_string();
        assert!(agent_config(&json!({})).contains(r#"install = \"image\""#));
        let copied = json!({ "flux": { "container": { "install": "Copy" } } });
        assert!(!agent_config(&copied).contains("install ="));
    }
}
