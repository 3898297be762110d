//! Clusters from files, and what is built of them.
#![allow(dead_code, reason = "each test binary uses another part")]

pub(crate) mod any_spec;
pub(crate) mod field_path;
pub(crate) mod rights;
pub(crate) mod server;
pub(crate) mod simulation;
pub(crate) mod world;

use any_spec::with_images;
use flux_api::cluster::Cluster;
use flux_api::cluster::validate::{Defaults, validate};
use flux_api::crd::{Install, MiniCluster};
use flux_api::objects::Images;
use flux_api::objects::{Desired, Services, agent_config, build, services};
use flux_contract::AgentConfig;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// Address of the lead's Service in all tests.
pub(crate) const LEAD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 7));

pub(crate) const UID: &str = "11111111-2222-3333-4444-555555555555";

/// A certificate that a user gives.
pub(crate) const CERTIFICATE: &str = "metadata\n    name = \"x\"\ncurve\n    public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n    secret-key = \"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"\n";

/// The operator's defaults in all tests: no value equals a constant of the product.
pub(crate) fn defaults() -> Defaults {
    Defaults {
        view_image: "registry.example/default-view:3".to_owned(),
        arm_view_image: "registry.example/default-arm-view:3".to_owned(),
        install: Install::Auto,
        cluster_domain: Some("cluster.local".to_owned()),
    }
}

/// The operator's images in all tests.
pub(crate) fn images() -> Images {
    Images {
        agent: "registry.example/agent:9".to_owned(),
        agent_pull_policy: "IfNotPresent".to_owned(),
    }
}

/// The MiniCluster in `text`, as the API server would have stored it.
pub(crate) fn object(text: &str) -> MiniCluster {
    let mut object: MiniCluster = serde_saphyr::from_str(text).unwrap();
    object.metadata.uid = Some(UID.to_owned());
    object.metadata.namespace.get_or_insert_with(|| "work".to_owned());
    object.metadata.generation = Some(1);
    object
}

/// The smallest MiniCluster, with what `spec` adds.
pub(crate) fn hello(spec: &Value) -> MiniCluster {
    let mut document = json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": "hello" },
        "spec": { "size": 4, "containers": [{ "image": "app", "command": "echo hello" }] },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        document["spec"][field] = value.clone();
    }
    with_images(&mut document["spec"]);
    object(&document.to_string())
}

/// The MiniCluster `hello` with this specification.
pub(crate) fn with_spec(spec: &Value) -> MiniCluster {
    let mut object = hello(&json!({}));
    object.spec = serde_json::from_value(spec.clone()).unwrap();
    object
}

pub(crate) fn cluster(object: &MiniCluster) -> Cluster {
    validate(object, &defaults()).unwrap()
}

/// What is wrong with the smallest MiniCluster and what `spec` adds.
pub(crate) fn faults(spec: &Value) -> Vec<String> {
    let violations = validate(&hello(spec), &defaults()).unwrap_err();
    violations.0.iter().map(ToString::to_string).collect()
}

/// What the agents of the smallest MiniCluster and what `spec` adds read.
pub(crate) fn config(spec: &Value) -> AgentConfig {
    let (_, desired) = built(&cluster(&hello(spec)));
    AgentConfig::from_toml(&desired.config_map.data.unwrap()["agent.toml"]).unwrap()
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
