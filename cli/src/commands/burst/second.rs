//! What the second MiniCluster is, from the one with the lead.

use super::lead::{Address, BURST_OF};
use crate::commands::status::summary;
use anyhow::{Result, bail, ensure};
use flux_api::crd::{LeadBroker, MiniCluster, State};
use flux_protocol::Hostlist;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};

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
}

/// What the second MiniCluster needs of the first, beside its specification.
pub(super) struct Side {
    pub(super) address: Address,
    /// Name of the Secret with the certificate.
    pub(super) secret: String,
}

/// The second MiniCluster for a running `lead`, which must have hosts for it.
pub(super) fn plan(lead: &MiniCluster, name: Option<&str>, size: Option<u32>) -> Result<Plan> {
    let first = lead.name_any();
    let runs = matches!(lead.state(), Some(State::Pending | State::Starting | State::Running));
    ensure!(runs, "{}: only a MiniCluster that runs can be joined", summary(lead));
    let elsewhere = lead_broker(lead).filter(|it| it.name.as_ref() != Some(&first));
    if let Some(elsewhere) = elsewhere {
        let other = elsewhere.name.as_deref().unwrap_or("another MiniCluster");
        bail!("{first} has no lead, {other} has it: give the name of that one");
    }
    let name = name.map_or_else(|| default_name(Some(lead)), str::to_owned);
    let room = room(lead, &name)?;
    let wanted = size.unwrap_or_else(|| room.max(1));
    let others = if clusters(lead).is_empty() { "" } else { " beside the present ones" };
    ensure!(
        room > 0,
        "{first} has no hosts of {name}, and Flux takes none while it runs: add `flux: {{bursting: {{clusters: [{{name: \
         {name}, size: {wanted}}}]}}}}` to its spec{others}, then delete and create it"
    );
    ensure!(
        (1..=room).contains(&wanted),
        "{first} has {room} hosts of {name}, and Flux takes no others while it runs: give --size 1 to {room}"
    );
    Ok(Plan { name, size: wanted })
}

/// The name of the first cluster that may join `lead`.
pub(super) fn default_name(lead: Option<&MiniCluster>) -> String {
    let first = lead.and_then(|lead| clusters(lead).into_iter().next());
    first.map_or_else(|| "burst-0".to_owned(), |(name, _)| name)
}

/// Names and sizes of the clusters that may join, with the defaults that the lead's MiniCluster has.
fn clusters(lead: &MiniCluster) -> Vec<(String, i32)> {
    let clusters = lead.spec.flux.bursting.iter().flat_map(|it| &it.clusters);
    let named = clusters.enumerate().map(|(position, cluster)| {
        let name = cluster.name.clone().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("burst-{position}"));
        (name, cluster.size.unwrap_or(lead.spec.size))
    });
    named.collect()
}

fn lead_broker(lead: &MiniCluster) -> Option<&LeadBroker> {
    let flux = &lead.spec.flux;
    flux.bursting.as_ref().and_then(|it| it.lead_broker.as_ref()).or(flux.lead_broker.as_ref())
}

fn hostlist(lead: &MiniCluster) -> Option<&str> {
    let bursting = lead.spec.flux.bursting.as_ref().and_then(|it| it.hostlist.as_deref());
    let list = bursting.or_else(|| lead_broker(lead)?.hostlist.as_deref());
    list.filter(|list| !list.is_empty())
}

/// How many hosts of the MiniCluster `name` the lead has.
fn room(lead: &MiniCluster, name: &str) -> Result<u32> {
    if let Some(list) = hostlist(lead) {
        return Ok(Hostlist::parse(list)?.indexes_of(name));
    }
    let found = clusters(lead).into_iter().find(|(it, _)| it == name);
    Ok(found.map_or(0, |(_, size)| size.unsigned_abs()))
}

/// The second MiniCluster: images, Flux and pods as those of `object`, which was read as `lead`.
pub(super) fn minicluster(
    object: &DynamicObject,
    lead: &MiniCluster,
    plan: &Plan,
    side: &Side,
) -> DynamicObject {
    let given = &object.data["spec"];
    let copied = COPIED.iter().filter(|field| !given[**field].is_null());
    let mut spec: Map<_, _> =
        copied.map(|field| ((*field).to_owned(), given[*field].clone())).collect();
    spec.insert("size".to_owned(), json!(plan.size));
    let mut spec = Value::Object(spec);
    for container in runners(&mut spec["containers"]) {
        container.retain(|field, _| !OF_THE_COMMAND.contains(&field.as_str()));
        let commands = container.get_mut("commands").and_then(Value::as_object_mut);
        commands.map(|commands| commands.remove("script"));
    }
    if let Some(flux) = spec["flux"].as_object_mut() {
        flux.retain(|field, _| !OF_THE_LEAD.contains(&field.as_str()));
    }
    spec["flux"]["curveCertSecret"] = json!(side.secret);
    spec["flux"]["bursting"] = bursting(lead, &side.address);
    let metadata = ObjectMeta {
        name: Some(plan.name.clone()),
        labels: Some([(BURST_OF.to_owned(), lead.name_any())].into()),
        ..ObjectMeta::default()
    };
    DynamicObject { types: object.types.clone(), metadata, data: json!({ "spec": spec }) }
}

/// The container that runs Flux: the only one, else the one that is marked, else the one without a mark.
fn runners(containers: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let all = containers.as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
    let (is_alone, is_marked) = (all.len() == 1, all.iter().any(|it| it["runFlux"] == true));
    let runs = move |it: &&mut Value| {
        is_alone || it["runFlux"] == true || (!is_marked && it["runFlux"].is_null())
    };
    all.iter_mut().filter(runs).filter_map(Value::as_object_mut)
}

fn bursting(lead: &MiniCluster, address: &Address) -> Value {
    let mut broker = json!({
        "name": lead.name_any(), "address": address.host, "port": address.port,
    });
    if let Some(list) = hostlist(lead) {
        return json!({ "leadBroker": broker, "hostlist": list });
    }
    broker["size"] = json!(lead.spec.max_size.unwrap_or(lead.spec.size));
    let clusters =
        clusters(lead).into_iter().map(|(name, size)| json!({ "name": name, "size": size }));
    json!({ "leadBroker": broker, "clusters": clusters.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(spec: &Value, state: &str) -> (DynamicObject, MiniCluster) {
        let object = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": { "name": "root" }, "spec": spec, "status": { "state": state },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        (object.clone(), object.try_parse().unwrap())
    }

    fn with_flux(flux: &Value) -> Value {
        json!({ "size": 2, "containers": [{ "image": "a" }], "flux": flux })
    }

    #[test]
    fn hosts_must_be_known_to_a_lead_that_runs() {
        let clusters = json!({ "bursting": { "clusters": [{ "size": 3 }, { "name": "far" }] } });
        let listed = json!({ "bursting": { "hostlist": "root-[0-1],far-[0-3]" } });
        let elsewhere = json!({ "leadBroker": { "name": "other", "address": "1.2.3.4" } });
        for (flux, state, name, size, expected) in [
            (&clusters, "Running", None, None, Ok(("burst-0", 3))),
            (&clusters, "Starting", None, Some(1), Ok(("burst-0", 1))),
            (&clusters, "Running", Some("far"), None, Ok(("far", 2))),
            (&listed, "Running", Some("far"), None, Ok(("far", 4))),
            (&clusters, "Running", None, Some(4), Err("give --size 1 to 3")),
            (&clusters, "Running", None, Some(0), Err("give --size 1 to 3")),
            (
                &clusters,
                "Running",
                Some("new"),
                Some(5),
                Err("{name: new, size: 5}]}}` to its spec beside"),
            ),
            (
                &json!({}),
                "Running",
                None,
                None,
                Err("[{name: burst-0, size: 1}]}}` to its spec, then"),
            ),
            (&listed, "Running", None, None, Err("has no hosts of burst-0")),
            (&clusters, "Complete", None, None, Err("only a MiniCluster that runs")),
            (&elsewhere, "Running", None, None, Err("other has it")),
        ] {
            let (_, lead) = lead(&with_flux(flux), state);
            match (plan(&lead, name, size), expected) {
                (Ok(plan), Ok((name, size))) => {
                    assert_eq!((&*plan.name, plan.size), (name, size), "{flux}");
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn the_second_has_what_both_must_agree_on_and_no_command() {
        let (object, lead) = lead(
            &json!({
                "size": 2, "maxSize": 3, "interactive": true, "tasks": 4, "suspend": false,
                "containers": [
                    { "image": "a", "runFlux": true, "command": "b", "commands": { "script": "c", "init": "d" } },
                    { "image": "e", "command": "f" },
                ],
                "flux": {
                    "curveCert": "secret", "rest": {}, "logLevel": 7,
                    "bursting": { "clusters": [{}, { "name": "far", "size": 1 }] },
                },
            }),
            "Running",
        );
        let (plan, address) = (
            Plan { name: "far".to_owned(), size: 1 },
            Address { host: "h".to_owned(), port: Some(7) },
        );
        let side = Side { address, secret: "far-certificate".to_owned() };
        let new = minicluster(&object, &lead, &plan, &side);
        assert_eq!((new.name_any().as_str(), &*new.labels()[BURST_OF]), ("far", "root"));
        let expected = json!({
            "size": 1,
            "containers": [
                { "image": "a", "runFlux": true, "commands": { "init": "d" } },
                { "image": "e", "command": "f" },
            ],
            "flux": {
                "logLevel": 7, "curveCertSecret": "far-certificate",
                "bursting": {
                    "leadBroker": { "name": "root", "size": 3, "address": "h", "port": 7 },
                    "clusters": [{ "name": "burst-0", "size": 2 }, { "name": "far", "size": 1 }],
                },
            },
        });
        assert_eq!(new.data["spec"], expected);
    }
}
