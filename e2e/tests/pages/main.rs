//! The pages for people: their links and commands exist, the operator accepts their MiniClusters, and each page is in the
//! book. And the imports of all crates.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod chart;
mod commands;
mod fields;
mod imports;
mod links;
mod manifests;
mod outputs;
mod page;
mod resources;
mod versions;
mod words;
mod workflows;

use e2e::product::checkout;
use serde_json::Value;
use std::path::PathBuf;
use walkdir::WalkDir;

fn repository() -> PathBuf {
    checkout().unwrap().canonicalize().unwrap()
}

/// The MiniClusters of the examples, also of those that are applied later, by their paths.
fn examples() -> Vec<Value> {
    let files = WalkDir::new(repository().join("examples")).sort_by_file_name();
    let files = files.into_iter().map(|entry| entry.unwrap().into_path());
    let manifests = files.filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    let objects = manifests.map(|path| -> Value {
        serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    });
    objects.filter(|it| it["kind"] == "MiniCluster").collect()
}
