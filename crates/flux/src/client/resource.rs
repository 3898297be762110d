//! The service resource: the ranks of an instance, which are up, drained, or allocated to jobs (flux-core,
//! `src/modules/resource`).

use crate::client::socket::{BrokerSocket, Result};
use crate::idset::{ids_of, idset};
use crate::resource_set::{RankStatus, ResourceSet, Resources};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The answer of `resource.sched-status`. Drained ranks are among those that are down.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Scheduled {
    all: ResourceSet,
    down: ResourceSet,
    allocated: ResourceSet,
}

/// The drained and the offline ranks, from the answer of `resource.status`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Status {
    drain: BTreeMap<String, Drained>,
    offline: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Drained {
    reason: Option<String>,
}

impl Status {
    /// Each drained rank, and the reason, which may be empty.
    fn drained(&self) -> impl Iterator<Item = (u32, &str)> {
        self.drain.iter().flat_map(|(ranks, drained)| {
            let reason = drained.reason.as_deref().unwrap_or_default();
            ids_of(ranks).unwrap_or_default().into_iter().map(move |rank| (rank, reason))
        })
    }

    /// Why `rank` is drained, if it is.
    pub fn drain_reason(&self, rank: u32) -> Option<&str> {
        self.drained().find_map(|(drained, reason)| (drained == rank).then_some(reason))
    }
}

/// Asks which ranks are drained or offline.
pub async fn status(socket: &mut BrokerSocket) -> Result<Status> {
    socket.ask_lead("resource.status", &json!({})).await
}

/// All ranks of the instance.
pub async fn ranks(socket: &mut BrokerSocket) -> Result<Vec<RankStatus>> {
    let scheduled = socket.ask_lead("resource.sched-status", &json!({})).await?;
    Ok(joined(&scheduled, &status(socket).await?))
}

/// Drains `ranks`: they get no new jobs, and those that run there may end (flux-resource(1)).
pub async fn drain(socket: &mut BrokerSocket, ranks: &[u32], reason: &str) -> Result<()> {
    let asked = json!({ "targets": idset(ranks), "reason": reason });
    socket.ask_lead("resource.drain", &asked).await
}

/// Lets `rank` get jobs again.
pub async fn undrain(socket: &mut BrokerSocket, rank: u32) -> Result<()> {
    socket.ask_lead("resource.undrain", &json!({ "targets": rank.to_string() })).await
}

fn joined(scheduled: &Scheduled, status: &Status) -> Vec<RankStatus> {
    let mut ranks: BTreeMap<u32, RankStatus> = BTreeMap::new();
    for (rank, Resources { cores, gpus }) in scheduled.all.ranks() {
        let of_rank = RankStatus { rank, up: true, cores, gpus, ..RankStatus::default() };
        ranks.insert(rank, of_rank);
    }
    for (rank, Resources { cores, gpus }) in scheduled.allocated.ranks() {
        if let Some(of_rank) = ranks.get_mut(&rank) {
            of_rank.cores_allocated += cores;
            of_rank.gpus_allocated += gpus;
        }
    }
    for (rank, reason) in status.drained() {
        if let Some(of_rank) = ranks.get_mut(&rank) {
            of_rank.drained = Some(reason.to_owned());
        }
    }
    // An older Flux does not list the ranks that are offline. The text is empty where there are none.
    let offline = status.offline.as_deref().map(|ids| ids_of(ids).unwrap_or_default());
    let lists_offline = offline.is_some();
    let down: BTreeSet<u32> = match offline {
        Some(offline) => offline.into_iter().collect(),
        None => scheduled.down.ranks().map(|(rank, _)| rank).collect(),
    };
    let is_down =
        |rank: &RankStatus| down.contains(&rank.rank) && (lists_offline || rank.drained.is_none());
    let ranks = ranks.into_values().map(|rank| RankStatus { up: !is_down(&rank), ..rank });
    ranks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_rank_has_cores_allocations_and_a_drain_reason() {
        let set = |rank: &str, children: Value| {
            json!({ "version": 1, "execution": {
                "R_lite": [{ "rank": rank, "children": children }], "nodelist": ["a-[0-3]"],
            }})
        };
        let scheduled = read(json!({
            "all": set("0-3", json!({ "core": "0-3", "gpu": "0" })),
            "down": set("2-3", json!({ "core": "0-3", "gpu": "0" })),
            "allocated": set("1-2", json!({ "core": "0-1" })),
        }));
        let drain = json!({ "2": { "timestamp": 1.0, "reason": "bad fan" } });
        let with = |status: Value| joined(&scheduled, &read(status));
        let found = with(json!({ "drain": drain, "offline": "3", "online": "0-2" }));
        let free = |rank: &RankStatus| (rank.up, rank.cores_free(), rank.gpus_free());
        let free_of_each: Vec<_> = found.iter().map(free).collect();
        assert_eq!(free_of_each, [(true, 4, 1), (true, 2, 1), (true, 0, 0), (false, 0, 0)]);
        assert_eq!(found[2].drained.as_deref(), Some("bad fan"));
        assert_eq!(found, with(json!({ "drain": drain })), "what is down and not drained");
        assert_eq!(joined(&read(json!({})), &Status::default()), []);
    }

    #[test]
    fn each_drained_rank_has_its_reason() {
        // As recorded from flux-core 0.88.
        let status: Status = read(json!({
            "R": { "version": 1 },
            "drain": {
                "1,3": { "timestamp": 1_795_380_311.0, "reason": "maintenance" },
                "2": { "timestamp": 1.0, "reason": "bad fan" },
                "5": { "timestamp": 1.0 },
            },
            "online": "0-5",
        }));
        let reasons = [0, 1, 2, 3, 5].map(|rank| status.drain_reason(rank));
        let maintenance = Some("maintenance");
        assert_eq!(reasons, [None, maintenance, Some("bad fan"), maintenance, Some("")]);
    }
}
