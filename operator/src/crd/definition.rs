//! The `CustomResourceDefinition` as it is installed: the derived one, made smaller and plainer.

use super::{MiniCluster, bounds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;
use std::sync::LazyLock;

/// Why the definition cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The derived definition does not survive a round trip through JSON.
    #[error("rewrite the definition of MiniCluster")]
    Rewrite {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Fields that hold a whole Kubernetes type: their own fields are documented by Kubernetes, and
/// those descriptions would be most of the definition.
const KUBERNETES_TYPES: [&str; 4] = ["resources", "securityContext", "tolerations", "conditions"];

/// The definition that `flux-operator manifests` writes.
///
/// It differs from the derived one in that
/// - no field is `nullable`, so that a null is as good as leaving the field out and defaults apply;
/// - an object with defaults inside has the default `{}`, so that they apply without it as well;
/// - descriptions inside embedded Kubernetes types are left out;
/// - every text, list and map of the specification has a limit.
pub fn definition() -> Result<CustomResourceDefinition, DefinitionError> {
    let rewrite = |source| DefinitionError::Rewrite { source };
    let mut definition = serde_json::to_value(MiniCluster::crd()).map_err(rewrite)?;
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        plain(schema);
        bounds::bound("spec", &mut schema["properties"]["spec"]);
    }
    serde_json::from_value(definition).map_err(rewrite)
}

/// The schema of `spec` in the definition. It is the same in every look.
pub(crate) static SPECIFICATION_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // That it is there, and limits what it should, is tested.
    let definition = definition().ok().and_then(|definition| serde_json::to_value(definition).ok());
    let version = definition.map(|definition| definition["spec"]["versions"][0].clone());
    let schema = version.unwrap_or_default()["schema"]["openAPIV3Schema"].clone();
    schema["properties"]["spec"].clone()
});

/// Applies the rules of [`definition`] to a schema and the schemas in it.
fn plain(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("nullable");
    if fields.get("default").is_some_and(Value::is_object) {
        fields.insert("default".to_owned(), Value::Object(serde_json::Map::default()));
    }
    for (name, property) in
        fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        plain(property);
        if KUBERNETES_TYPES.contains(&name.as_str()) {
            undescribed(property, true);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            plain(inner);
        }
    }
}

/// Removes descriptions inside `schema`, and its own unless it is the outermost.
fn undescribed(schema: &mut Value, outermost: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    if !outermost {
        fields.remove("description");
    }
    for property in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        undescribed(property, false);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            undescribed(inner, false);
        }
    }
}
