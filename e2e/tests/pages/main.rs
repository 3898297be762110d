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
use std::path::PathBuf;

fn repository() -> PathBuf {
    checkout().unwrap().canonicalize().unwrap()
}
