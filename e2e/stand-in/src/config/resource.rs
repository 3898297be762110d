//! The `[resource]` table: what the brokers have, and which of them run no jobs.

use std::collections::BTreeSet;

use flux_contract::Hostlist;
use serde::{Deserialize, Serialize};

use crate::resources::{self, Cores};
use crate::text::idset;

/// flux-config-resource(5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Table {
    /// The file of the resource set. Without one, Flux discovers what there is.
    pub(crate) path: String,
    exclude: Option<String>,
    /// Whether a broker with fewer cores than configured is used all the same.
    pub(crate) noverify: bool,
}

impl Table {
    /// The cores of every rank, and the ranks that are never scheduled. Every rank opens the file, though
    /// all but the leader have the leader's configuration.
    ///
    /// # Errors
    /// What makes the resource module of Flux 0.88 refuse to start.
    pub(crate) fn read(&self, hosts: &[String]) -> Result<(Cores, BTreeSet<u32>), String> {
        let cores = resources::read(&self.path, hosts)?;
        let excluded = self.exclude.as_ref().map(|text| targets(text, hosts));
        Ok((cores, excluded.transpose()?.unwrap_or_default()))
    }
}

/// Ranks named by an id set or a hostlist.
fn targets(text: &str, hosts: &[String]) -> Result<BTreeSet<u32>, String> {
    let invalid = || format!("invalid exclude targets: {text}");
    let known: Vec<(u32, &String)> = (0..).zip(hosts).collect();
    if let Some(ids) = idset::decode(text) {
        let fits = ids.last().is_none_or(|last| known.iter().any(|(rank, _)| rank == last));
        return fits.then_some(ids).ok_or_else(invalid);
    }
    let names = Hostlist::parse(text).map_err(|_| invalid())?;
    let rank = |name: String| known.iter().find(|(_, host)| **host == name).map(|(rank, _)| *rank);
    names.hosts().map(|name| rank(name).ok_or_else(invalid)).collect()
}
