//! Resource sets, which Flux calls R (RFC 20): which ranks there are, with which cores and GPUs.

use crate::hostlist::Hostlist;
use crate::idset::{ids_of, idset};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

const CORE: &str = "core";
const GPU: &str = "gpu";

/// Cores and GPUs of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// The number of cores.
    pub cores: usize,
    /// The number of GPUs.
    pub gpus: usize,
}

/// The part of a resource set with the resources of each rank.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSet {
    execution: Execution,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Execution {
    #[serde(rename = "R_lite")]
    ranks: Vec<Ranks>,
}

/// Ranks that have the same resources.
#[derive(Debug, Deserialize)]
struct Ranks {
    rank: String,
    children: BTreeMap<String, String>,
}

impl Ranks {
    fn count(&self, kind: &str) -> usize {
        self.children.get(kind).and_then(|ids| ids_of(ids)).map_or(0, |ids| ids.len())
    }
}

impl ResourceSet {
    /// Reads the document.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The document for `hosts`, each with the same `resources` and with at least one core. Cores and GPUs are numbered
    /// from 0, as hwloc numbers the visible cores and `CUDA_VISIBLE_DEVICES` the GPUs.
    pub fn text(hosts: &Hostlist, resources: Resources) -> String {
        let first = |count| idset(&(0..).take(count).collect::<Vec<_>>());
        let mut children = json!({ CORE: first(resources.cores.max(1)) });
        if resources.gpus > 0 {
            children[GPU] = first(resources.gpus).into();
        }
        let ranks = first(hosts.len());
        let set = json!({"version": 1, "execution": {
            "R_lite": [{ "rank": ranks, "children": children }],
            "nodelist": [hosts.to_string()],
            "starttime": 0,
            "expiration": 0,
        }});
        format!("{set}\n")
    }

    /// Each rank with its resources.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, Resources)> {
        self.execution.ranks.iter().flat_map(|ranks| {
            let resources = Resources { cores: ranks.count(CORE), gpus: ranks.count(GPU) };
            let numbers = ids_of(&ranks.rank).unwrap_or_default();
            numbers.into_iter().map(move |rank| (rank, resources))
        })
    }
}

/// A rank at one moment.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankStatus {
    /// The number of the rank.
    pub rank: u32,
    /// The broker of the rank is part of the instance.
    pub up: bool,
    /// Cores that Flux schedules.
    pub cores: usize,
    /// Cores that jobs have.
    pub cores_allocated: usize,
    /// GPUs that Flux schedules.
    pub gpus: usize,
    /// GPUs that jobs have.
    pub gpus_allocated: usize,
    /// Why the rank gets no more jobs, if it is drained. Flux asks for no reason: the text may be empty.
    pub drained: Option<String>,
}

impl RankStatus {
    /// Flux may give jobs to the rank.
    pub const fn is_usable(&self) -> bool {
        self.up && self.drained.is_none()
    }

    /// Cores for the next job.
    pub const fn cores_free(&self) -> usize {
        if self.is_usable() { self.cores.saturating_sub(self.cores_allocated) } else { 0 }
    }

    /// GPUs for the next job.
    pub const fn gpus_free(&self) -> usize {
        if self.is_usable() { self.gpus.saturating_sub(self.gpus_allocated) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resources_of_each_rank_are_read() {
        let text = r#"{"version":1,"execution":{"R_lite":[
            {"rank":"0-1","children":{"core":"0-3,8","gpu":"1"}},
            {"rank":"3","children":{"core":"0"}}],"nodelist":["a-[0-2]"]}}"#;
        let ranks: Vec<_> = ResourceSet::parse(text).unwrap().ranks().collect();
        let [large, small] = [(5, 1), (1, 0)].map(|(cores, gpus)| Resources { cores, gpus });
        assert_eq!(ranks, [(0, large), (1, large), (3, small)]);
        assert_eq!(ResourceSet::parse("{}").unwrap().ranks().next(), None);
        assert!(ResourceSet::parse("{").is_none());
    }

    #[test]
    fn each_host_has_the_same_first_cores_and_gpus() {
        let hosts = Hostlist::parse("away,a-[0-2]").unwrap();
        let set = ResourceSet::text(&hosts, Resources { cores: 0, gpus: 0 });
        insta::assert_snapshot!(set, @r#"{"execution":{"R_lite":[{"children":{"core":"0"},"rank":"0-3"}],"expiration":0,"nodelist":["away,a-[0-2]"],"starttime":0},"version":1}"#);
        let set = ResourceSet::text(&hosts, Resources { cores: 4, gpus: 2 });
        let children = r#""children":{"core":"0-3","gpu":"0-1"}"#;
        assert!(set.contains(children), "{set}");
    }
}
