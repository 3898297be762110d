//! Checks whether the served CustomResourceDefinition has all fields of this release. Helm does not update it, and
//! the API server drops unknown fields from every object.

use super::definition::OBJECT_SCHEMA;
use serde_json::Value;

/// Number of missing fields that a message names.
const NAMED_FIELDS: usize = 8;

/// Path of the API server's OpenAPI document for MiniClusters, which every user of the API may read.
pub const DOCUMENT_PATH: &str = "/openapi/v3/apis/flux-framework.org/v1alpha2";

/// Paths of fields that the served definition lacks, e.g. `spec.autoscale`. `document` is the one at [`DOCUMENT_PATH`].
pub fn lacking_fields(document: &Value) -> Vec<String> {
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    let is_ours = |(name, _): &(&String, &Value)| name.ends_with(".MiniCluster");
    let mut lacking = Vec::new();
    if let Some((_, served)) = schemas.into_iter().find(is_ours) {
        for part in ["spec", "status"] {
            let [ours, served] = [&*OBJECT_SCHEMA, served].map(|it| &it["properties"][part]);
            compare(part, ours, served, &mut lacking);
        }
    }
    lacking
}

/// The message about `lacking` fields, with the remedy.
pub fn message(lacking: &[String]) -> String {
    let named = &lacking[..lacking.len().min(NAMED_FIELDS)];
    let more = lacking.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "the CustomResourceDefinition miniclusters.flux-framework.org is of another release and lacks {}{more}: what is \
         in these fields is lost; update it with kubectl apply --server-side --force-conflicts -f crd.yaml, of the \
         operator's release",
        named.join(", ")
    )
}

/// Adds the fields of `ours` that `served` lacks, without their inner fields.
fn compare(path: &str, ours: &Value, served: &Value, lacking: &mut Vec<String>) {
    if !ours.is_object() || served["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match served["properties"].get(name) {
            Some(served) => compare(&path, field, served, lacking),
            None => lacking.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        compare(&format!("{path}[]"), &ours[inner], &served[inner], lacking);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lacking(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut served = OBJECT_SCHEMA.clone();
        change(&mut served["properties"]);
        let mut lacking = Vec::new();
        compare("", &OBJECT_SCHEMA, &served, &mut lacking);
        lacking
    }

    #[test]
    fn an_older_definition_lacks_fields_of_any_depth() {
        assert_eq!(lacking(|_| ()), [""; 0]);
        let found = lacking(|served| {
            served["spec"]["properties"].as_object_mut().unwrap().remove("autoscale");
            let container = &mut served["spec"]["properties"]["containers"]["items"];
            container["properties"].as_object_mut().unwrap().remove("image");
            served["status"] = json!({ "type": "object", "properties": {} });
        });
        assert!(found.iter().any(|it| it == ".spec.autoscale"), "{found:?}");
        assert!(found.iter().any(|it| it == ".spec.containers[].image"), "{found:?}");
        assert!(found.iter().any(|it| it == ".status.state"), "{found:?}");
        let text = message(&found);
        assert!(text.contains("kubectl apply") && text.contains(" more: "), "{text}");
        assert_eq!(
            lacking(
                |served| served["spec"] = json!({ "x-kubernetes-preserve-unknown-fields": true })
            ),
            [""; 0]
        );
    }
}
