//! The objects and faults of MiniClusters.

use flux_api::cluster::Cluster;
use flux_api::cluster::validate::validate;
use flux_api::crd::MiniCluster;
use flux_api::objects::{Desired, Services, agent_config, build, services};
use flux_testkit::samples::{defaults, images};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

/// Address of the lead's Service in all tests.
pub(crate) const LEAD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 7));

pub(crate) fn cluster(object: &MiniCluster) -> Cluster {
    validate(object, &defaults()).unwrap()
}

pub(crate) fn faults(object: &MiniCluster) -> Vec<String> {
    let violations = validate(object, &defaults()).err();
    violations.iter().flat_map(|violations| &violations.0).map(ToString::to_string).collect()
}

pub(crate) fn built(cluster: &Cluster) -> (Services, Desired) {
    let config = agent_config(cluster, Some(LEAD));
    (services(cluster), build(cluster, &config, &images(), 1).unwrap())
}

/// The built objects as documents, in the order of their creation.
pub(crate) fn documents(cluster: &Cluster) -> Vec<Value> {
    let (Services { headless, lead, exposed, aliases }, desired) = built(cluster);
    let mut documents = vec![
        serde_json::to_value(headless).unwrap(),
        serde_json::to_value(lead).unwrap(),
        serde_json::to_value(desired.config_map).unwrap(),
    ];
    let sidecars = exposed.iter().zip(&aliases).flat_map(|(own, alias)| [own, alias]);
    documents.extend(sidecars.map(|service| serde_json::to_value(service).unwrap()));
    documents.extend(desired.services_pod.map(|pod| serde_json::to_value(pod).unwrap()));
    documents.push(serde_json::to_value(desired.job).unwrap());
    documents
}
