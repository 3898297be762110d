//! Sets of ranks and of their resources, as flux-core 0.88 writes them.

use flux_protocol::idset::idset;
use serde_json::{Value, json};

pub(super) const CORES_OF_RANK: usize = 4;
pub(super) const CORES: &str = "0-3";

/// As it is in the description of a job.
pub(super) fn bracketed(ids: &[u32]) -> String {
    let text = idset(ids);
    if ids.len() > 1 { format!("[{text}]") } else { text }
}

/// A list of hosts (RFC 29).
pub(super) fn hosts(ids: &[u32]) -> String {
    if ids.is_empty() { String::new() } else { format!("hello-{}", bracketed(ids)) }
}

/// A set of resources (RFC 20).
pub(super) fn set(ids: &[u32]) -> Value {
    let all = json!([{ "rank": idset(ids), "children": { "core": CORES } }]);
    let all = if ids.is_empty() { json!([]) } else { all };
    json!({ "version": 1, "execution": {
        "R_lite": all, "starttime": 0.0, "expiration": 0.0, "nodelist": [hosts(ids)],
    }})
}
