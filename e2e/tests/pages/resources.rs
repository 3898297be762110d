//! The MiniClusters of the examples have the limits that people should give to theirs.

use crate::examples;
use serde_json::Value;

/// MiniClusters without limits, and why.
const WITHOUT: [(&str, &str); 1] =
    [("hello-world", "it has the fewest fields that work, and the quickstart shows all of them")];

/// Whether the containers that run Flux have limits of CPU, from which Flux counts its cores, and of memory.
fn is_limited(cluster: &Value) -> bool {
    let containers = cluster["spec"]["containers"].as_array().unwrap();
    let runs_flux = |it: &&Value| containers.len() == 1 || it["runFlux"] == true;
    let mut limits = containers.iter().filter(runs_flux).map(|it| &it["resources"]["limits"]);
    limits.all(|it| it["cpu"].is_string() && it["memory"].is_string())
}

#[test]
fn flux_has_limits_of_cpu_and_memory_in_the_examples() {
    let clusters = examples();
    assert!(clusters.len() > 60, "only {} MiniClusters were found", clusters.len());
    let unlimited = clusters.iter().filter(|it| !is_limited(it)).map(|it| &it["metadata"]["name"]);
    assert_eq!(unlimited.collect::<Vec<_>>(), WITHOUT.map(|(name, _)| name));
}
