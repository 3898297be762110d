//! MiniClusters, and the settings of an operator that acts on them.

use flux_api::cluster::validate::Defaults;
use flux_api::crd::{Install, MiniCluster};
use flux_api::fixtures::mini_cluster;
use flux_api::objects::Images;
use serde_json::{Value, json};

/// A certificate that a user gives.
pub const CERTIFICATE: &str = "metadata\n    name = \"x\"\ncurve\n    public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID\"\n    secret-key = \"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\"\n";

/// Defaults of the operator in all tests: no value equals a constant of the product.
pub fn defaults() -> Defaults {
    Defaults {
        view_image: "registry.example/default-view:3".to_owned(),
        arm_view_image: "registry.example/default-arm-view:3".to_owned(),
        install: Install::Auto,
        cluster_domain: Some("cluster.local".to_owned()),
    }
}

/// The operator's images in all tests.
pub fn images() -> Images {
    flux_api::fixtures::images("registry.example/agent:9")
}

/// `object` as the API server would have stored it, in the namespace `work` unless it names another.
pub fn stored(mut object: MiniCluster) -> MiniCluster {
    object.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    object.metadata.namespace.get_or_insert_with(|| "work".to_owned());
    object.metadata.generation = Some(1);
    object
}

/// `echo hello` on four pods, with the fields of `spec`.
pub fn hello(spec: &Value) -> MiniCluster {
    let mut object = mini_cluster(spec);
    object.metadata.namespace = None;
    stored(object)
}

/// The MiniCluster `hello` with this specification.
pub fn with_spec(spec: &Value) -> MiniCluster {
    let mut object = hello(&json!({}));
    object.spec = serde_json::from_value(spec.clone()).unwrap();
    object
}
