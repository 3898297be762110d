//! From a user's specification to what each pod would do, without a cluster: the operator builds
//! `agent.toml`, the agent reads it and plans.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "helpers of tests, some of which are those of other tests"
)]

#[path = "../../agent/tests/it/settings.rs"]
mod settings;

use flux_agent::plan::{Failure, client_environment, plan};
use flux_api::cluster::Cluster;
use flux_api::cluster::validate::validate;
use flux_api::crd::MiniCluster;
use flux_api::objects::agent_config;
use flux_contract::AgentConfig;
use flux_testkit::any_spec::{accepted, any_spec, settings as cases};
use flux_testkit::repository::{files, in_repository};
use flux_testkit::samples::defaults;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

/// The configuration of the agents of `cluster`, as they read it.
fn read(cluster: &Cluster) -> AgentConfig {
    let config = agent_config(cluster, Some(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 7))));
    let read = AgentConfig::from_toml(&config.to_toml().unwrap()).unwrap();
    assert_eq!(read, config);
    read
}

/// Plans the first and the last pod of `cluster`, with all there can be in image and view.
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
    #![proptest_config(cases(256))]

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
    let mut seen = 0;
    for path in files(&in_repository("examples"), "yaml") {
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
