//! The MiniClusters of the examples have the limits that people should give to theirs.

use crate::repository;
use serde_json::Value;
use walkdir::WalkDir;

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
    let files = WalkDir::new(repository().join("examples")).sort_by_file_name();
    let files = files.into_iter().map(|entry| entry.unwrap().into_path());
    let manifests = files.filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    let objects = manifests.map(|path| -> Value {
        let text = std::fs::read_to_string(path).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    });
    let clusters: Vec<Value> = objects.filter(|it| it["kind"] == "MiniCluster").collect();
    assert!(clusters.len() > 60, "only {} MiniClusters were found", clusters.len());
    let unlimited = clusters.iter().filter(|it| !is_limited(it)).map(|it| &it["metadata"]["name"]);
    assert_eq!(unlimited.collect::<Vec<_>>(), WITHOUT.map(|(name, _)| name));
}
