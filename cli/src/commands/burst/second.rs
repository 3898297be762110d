//! What the second MiniCluster is, from the one with the lead.

use super::lead::{Address, BURST_OF};
use crate::commands::status::summary;
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::cluster::validate::{Defaults, runner_position, validate};
use flux_api::crd::{MiniCluster, State};
use flux_contract::Bootstrap;
use flux_protocol::Hostlist;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};

/// Fields that the second MiniCluster has from the first. The rest concerns the command, or objects of that cluster.
const COPIED: [&str; 5] = ["containers", "flux", "logging", "pod", "shareProcessNamespace"];
/// Fields of its runner that have no effect without a lead.
const OF_THE_COMMAND: [&str; 5] = ["command", "batch", "batchRaw", "launcher", "diagnostics"];
/// Fields of `flux` that belong to the lead, or that [`minicluster`] sets.
const OF_THE_LEAD: [&str; 5] = ["curveCert", "curveCertSecret", "leadBroker", "bursting", "rest"];

/// Name and size of the second MiniCluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) size: u32,
    /// All hosts that the lead knows, in the order of their ranks.
    hosts: Hostlist,
}

/// The second MiniCluster for a running `lead`, which must have hosts for it.
pub(super) fn plan(lead: &MiniCluster, name: Option<&str>, size: Option<u32>) -> Result<Plan> {
    let first = lead.name_any();
    let runs = matches!(lead.state(), Some(State::Pending | State::Starting | State::Running));
    ensure!(runs, "{}: only a MiniCluster that runs can be joined", summary(lead));
    let cluster = validate(lead, &Defaults::default())
        .with_context(|| format!("read the hosts of {first}"))?;
    let hosts = match cluster.flux.bootstrap {
        Bootstrap::Root { hosts } => hosts,
        Bootstrap::Child { hosts, .. } => {
            let other = hosts.first().unwrap_or_default();
            bail!("{first} has no lead, {other} has it: give the name of that MiniCluster");
        }
    };
    let name = name.map_or_else(|| default_name(Some(lead)), str::to_owned);
    let room = hosts.indexes_of(&name);
    let size = size.unwrap_or_else(|| room.max(1));
    ensure!(
        room > 0,
        "{first} has no hosts of {name}, and Flux takes none while it runs: add `flux: {{bursting: {{clusters: [{{name: \
         {name}, size: {size}}}]}}}}` to its spec, beside the clusters there, then delete and create it"
    );
    ensure!(
        (1..=room).contains(&size),
        "{first} has {room} hosts of {name}, and Flux takes no others while it runs: give --size 1 to {room}"
    );
    Ok(Plan { name, size, hosts })
}

/// The name of the first cluster that may join `lead`.
pub(super) fn default_name(lead: Option<&MiniCluster>) -> String {
    let bursting = lead.and_then(|lead| lead.spec.flux.bursting.as_ref());
    let given = bursting.and_then(|it| it.clusters.first()?.name.clone());
    given.filter(|name| !name.is_empty()).unwrap_or_else(|| "burst-0".to_owned())
}

/// The second MiniCluster: images, Flux and pods as those of `object`, which was read as `lead`.
pub(super) fn minicluster(
    object: &DynamicObject,
    lead: &MiniCluster,
    plan: &Plan,
    address: &Address,
) -> DynamicObject {
    let mut spec = object.data["spec"].clone();
    retain(Some(&mut spec), |field| COPIED.contains(&field));
    spec["size"] = json!(plan.size);
    if let Some(runner) = runner_position(&lead.spec.containers) {
        let runner = &mut spec["containers"][runner];
        retain(Some(runner), |field| !OF_THE_COMMAND.contains(&field));
        retain(runner.get_mut("commands"), |field| field != "script");
    }
    retain(spec.get_mut("flux"), |field| !OF_THE_LEAD.contains(&field));
    spec["flux"]["curveCertSecret"] = json!(secret_name(&plan.name));
    spec["flux"]["bursting"] = json!({
        "leadBroker": { "name": lead.name_any(), "address": address.host, "port": address.port },
        "hostlist": plan.hosts.to_string(),
    });
    let metadata = ObjectMeta {
        name: Some(plan.name.clone()),
        labels: Some([(BURST_OF.to_owned(), lead.name_any())].into()),
        ..ObjectMeta::default()
    };
    DynamicObject { types: object.types.clone(), metadata, data: json!({ "spec": spec }) }
}

pub(super) fn secret_name(burst: &str) -> String {
    format!("{burst}-certificate")
}

fn retain(object: Option<&mut Value>, keeps: impl Fn(&str) -> bool) {
    if let Some(fields) = object.and_then(Value::as_object_mut) {
        fields.retain(|field, _| keeps(field));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(spec: &Value, state: &str) -> (DynamicObject, MiniCluster) {
        let object = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": { "name": "root", "namespace": "default", "uid": "u" }, "spec": spec, "status": { "state": state },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        (object.clone(), object.try_parse().unwrap())
    }

    #[test]
    fn hosts_must_be_known_to_a_lead_that_runs() {
        let clusters = json!({ "bursting": { "clusters": [{ "size": 3 }, { "name": "far" }] } });
        let listed = json!({ "bursting": { "hostlist": "root-[0-1],far-[0-3]" } });
        let elsewhere =
            json!({ "leadBroker": { "address": "1.2.3.4", "hostlist": "other-0,root-[0-1]" } });
        for (flux, state, name, size, expected) in [
            (&clusters, "Running", None, None, "burst-0 3"),
            (&clusters, "Starting", None, Some(1), "burst-0 1"),
            (&clusters, "Running", Some("far"), None, "far 2"),
            (&listed, "Running", Some("far"), None, "far 4"),
            (&clusters, "Running", None, Some(4), "give --size 1 to 3"),
            (&clusters, "Running", None, Some(0), "give --size 1 to 3"),
            (&clusters, "Running", Some("new"), Some(5), "[{name: new, size: 5}]}}` to its spec,"),
            (
                &json!({}),
                "Running",
                None,
                None,
                "[{name: burst-0, size: 1}]}}` to its spec, beside",
            ),
            (&listed, "Running", None, None, "has no hosts of burst-0"),
            (&clusters, "Complete", None, None, "only a MiniCluster that runs"),
            (&elsewhere, "Running", None, None, "has no lead, other-0 has it"),
        ] {
            let containers = json!([{ "image": "a", "command": "b" }]);
            let (_, lead) =
                lead(&json!({ "size": 2, "containers": containers, "flux": flux }), state);
            let found = plan(&lead, name, size)
                .map_or_else(|it| it.to_string(), |it| format!("{} {}", it.name, it.size));
            assert!(found.contains(expected), "{flux}: {found}");
        }
    }

    #[test]
    fn the_second_has_what_both_must_agree_on_and_no_command() {
        let (object, lead) = lead(
            &json!({
                "size": 2, "maxSize": 3, "tasks": 4, "suspend": false,
                "containers": [
                    { "image": "a", "runFlux": true, "batch": true, "commands": { "script": "c", "init": "d" } },
                    { "name": "beside", "image": "e", "command": "f" },
                ],
                "flux": {
                    "curveCertSecret": "mine", "rest": {}, "logLevel": 7,
                    "bursting": { "clusters": [{}, { "name": "far", "size": 1 }] },
                },
            }),
            "Running",
        );
        let (plan, port) = (plan(&lead, Some("far"), None).unwrap(), Some(7));
        let new = minicluster(&object, &lead, &plan, &Address { host: "h".to_owned(), port });
        assert_eq!((new.name_any().as_str(), &*new.labels()[BURST_OF]), ("far", "root"));
        let expected = json!({
            "size": 1,
            "containers": [
                { "image": "a", "runFlux": true, "commands": { "init": "d" } },
                { "name": "beside", "image": "e", "command": "f" },
            ],
            "flux": {
                "logLevel": 7, "curveCertSecret": "far-certificate",
                "bursting": {
                    "leadBroker": { "name": "root", "address": "h", "port": 7 },
                    "hostlist": "root-[0-2],burst-0-[0-1],far-0",
                },
            },
        });
        assert_eq!(new.data["spec"], expected);
    }
}
