//! From a user's specification to what each pod would do, without a cluster: the operator builds
//! `agent.toml`, the agent reads it and plans.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "helpers of tests, some of which are those of other tests"
)]

#[path = "../../operator/tests/support/any_spec.rs"]
mod any_spec;
#[path = "../../agent/tests/it/settings.rs"]
mod settings;

use any_spec::{accepted, any_spec};
use flux_agent::plan::{Failure, client_environment, plan};
use flux_contract::AgentConfig;
use flux_operator::cluster::Cluster;
use flux_operator::cluster::validate::{Defaults, validate};
use flux_operator::controller::build::agent_config;
use flux_operator::crd::{Install, MiniCluster};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

fn defaults() -> Defaults {
    let image = || "registry.example/view:1".to_owned();
    let (view_image, arm_view_image) = (image(), image());
    Defaults { view_image, arm_view_image, install: Install::Auto, cluster_domain: None }
}

fn with_spec(spec: &Value) -> MiniCluster {
    let document = json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": "hello", "namespace": "work" },
        "spec": spec,
    });
    serde_json::from_value(document).unwrap()
}

/// The configuration of the agents of `cluster`, as they read it.
fn read(cluster: &Cluster) -> AgentConfig {
    let config = agent_config(cluster, Some(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 7))));
    let read = AgentConfig::from_toml(&config.to_toml().unwrap()).unwrap();
    assert_eq!(read, config);
    read
}

/// Plans the first and the last pod of `cluster`, with an image and a view that have everything.
fn planned(cluster: &Cluster) -> Vec<Result<String, Failure>> {
    let config = read(cluster);
    let pods = [0, cluster.size - 1].map(|index| config.cluster.name.pod_hostname(index));
    let one = |hostname: &String| {
        let facts = settings::facts(&config, hostname, 0);
        client_environment(&config, &facts)?;
        Ok(format!("{:#}", plan(&config, &facts)?))
    };
    pods.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..ProptestConfig::with_cases(256)
    })]

    #[test]
    fn every_pod_of_an_accepted_specification_has_a_plan(
        cluster in any_spec().prop_filter_map("cannot be made valid", |spec| accepted(&spec)),
    ) {
        for plan in planned(&cluster) {
            prop_assert!(plan.is_ok(), "{:?}", plan);
        }
    }
}

#[test]
fn every_pod_of_every_example_has_a_plan() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for file in walkdir::WalkDir::new(examples) {
        let path = file.unwrap().into_path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("\nkind: MiniCluster\n") {
            continue;
        }
        let mut object: MiniCluster = serde_saphyr::from_str(&text).unwrap();
        object.metadata.namespace.get_or_insert_with(|| "work".to_owned());
        let cluster = validate(&object, &defaults())
            .unwrap_or_else(|faults| panic!("{}: {faults}", path.display()));
        for plan in planned(&cluster) {
            assert!(plan.is_ok(), "{}: {plan:?}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 36, "only {seen} were found");
}
