//! Resource sets (R, RFC 20): cores of hosts, from a file.

use crate::output::strerror;
use flux_protocol::Hostlist;
use flux_protocol::idset::ids_of;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How many cores each rank has.
pub(crate) type Cores = BTreeMap<u32, usize>;

/// The `[resource]` table, flux-config-resource(5).
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    /// The file of the resource set. Without one, Flux discovers what there is.
    pub(crate) path: String,
    /// Ranks that are never scheduled. Real Flux takes a hostlist as well.
    exclude: String,
    /// Brokers with fewer cores than configured, which drain themselves in real Flux, are used here.
    #[serde(rename = "noverify")]
    _noverify: bool,
}

impl Table {
    /// The cores of every rank, and the ranks that are never scheduled. Every rank opens the file.
    pub(crate) fn read(&self, hosts: &[String]) -> Result<(Cores, BTreeSet<u32>), String> {
        let cores = read(&self.path, hosts)?;
        let excluded = Some(Vec::new()).filter(|_| self.exclude.is_empty());
        let excluded = excluded
            .or_else(|| ids_of(&self.exclude))
            .filter(|ids| ids.iter().all(|id| cores.contains_key(id)));
        let invalid = || format!("invalid exclude targets: {}", self.exclude);
        Ok((cores, excluded.ok_or_else(invalid)?.into_iter().collect()))
    }
}

/// The cores of every node by its name.
fn parse(text: &str) -> Option<BTreeMap<String, usize>> {
    let set: Value = serde_json::from_str(text).ok()?;
    let (execution, mut cores) = (&set["execution"], Cores::new());
    for entry in execution["R_lite"].as_array()? {
        let children = entry["children"].as_object()?;
        children.keys().all(|kind| ["core", "gpu"].contains(&kind.as_str())).then_some(())?;
        let given = ids_of(children.get("core")?.as_str()?)?.len();
        let ranks = ids_of(entry["rank"].as_str()?)?.into_iter();
        cores.extend(ranks.map(|rank| (rank, given)));
    }
    let names = execution["nodelist"].as_array()?.iter().map(Value::as_str);
    let names = Hostlist::parse(&names.collect::<Option<Vec<_>>>()?.join(",")).ok()?;
    Some(names.hosts().zip(cores.into_values()).collect())
}

/// Reads the file at `path` for the brokers named `hosts`, which it must name all and no other. The
/// rank of a node is that of its host.
fn read(path: &str, hosts: &[String]) -> Result<Cores, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("unable to open {path}: {}", strerror(&error)))?;
    let named = parse(&text).ok_or("error parsing R")?;
    if named.len() != hosts.len() {
        return Err(format!("error reranking R: {} hosts, {} nodes", hosts.len(), named.len()));
    }
    let cores_of = |host: &String| {
        let missing = || format!("error reranking R: Host {host} not found in resources");
        named.get(host).copied().ok_or_else(missing)
    };
    (0..).zip(hosts).map(|(rank, host)| Ok((rank, cores_of(host)?))).collect()
}
