//! `flux-operator validate`: the checks of the API server and of the operator, without either.

mod unknown;

use crate::cluster::{Defaults, validate};
use crate::crd::MiniCluster;
use kube::Resource as _;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;
use std::path::{Path, PathBuf};

/// One fault of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// Name of the MiniCluster, if the document has got as far as having one.
    pub name: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: ", self.file.display())?;
        if let Some(name) = &self.name {
            write!(formatter, "{name}: ")?;
        }
        formatter.write_str(&self.message)
    }
}

/// What was found in one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// How many documents were checked.
    pub checked: usize,
    /// Every fault of every one of them.
    pub faults: Vec<Fault>,
}

/// Checks every MiniCluster in the text of `file`. Other kinds are passed over; a file without
/// any MiniCluster is a fault of its own, because it was asked for.
pub fn findings(file: &Path, text: &str, defaults: &Defaults) -> Findings {
    let fault = |name: Option<&str>, message: String| Fault {
        file: file.to_owned(),
        name: name.map(str::to_owned),
        message,
    };
    let documents = match serde_saphyr::from_multiple::<Value>(text) {
        Ok(documents) => documents,
        Err(error) => {
            return Findings {
                checked: 0,
                faults: vec![fault(None, error.render_with_formatter(&UserMessageFormatter))],
            };
        }
    };
    let mut findings = Findings::default();
    for document in documents.into_iter().filter(is_mini_cluster) {
        findings.checked += 1;
        let name = document["metadata"]["name"].as_str().map(str::to_owned);
        let messages = messages(document, defaults);
        findings.faults.extend(messages.into_iter().map(|text| fault(name.as_deref(), text)));
    }
    if findings.checked == 0 {
        findings.faults.push(fault(None, "no MiniCluster in this file".to_owned()));
    }
    findings
}

fn is_mini_cluster(document: &Value) -> bool {
    document["kind"] == MiniCluster::kind(&()).as_ref()
        && document["apiVersion"] == MiniCluster::api_version(&()).as_ref()
}

/// Every fault of one document, each once.
fn messages(document: Value, defaults: &Defaults) -> Vec<String> {
    let mut messages = unknown::fields(&document);
    let mut object: MiniCluster = match serde_json::from_value(document) {
        Ok(object) => object,
        Err(error) => {
            messages.push(error.to_string());
            return messages;
        }
    };
    // What the API server would have filled in.
    object.metadata.uid.get_or_insert_with(|| "00000000-0000-0000-0000-000000000000".to_owned());
    object.metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let Err(violations) = validate(&object, defaults) {
        messages.extend(violations.0.iter().map(ToString::to_string));
    }
    // The rules of the schema repeat some of these: they only matter where the others are silent.
    if messages.is_empty()
        && let Err(errors) = object.validate_cel()
    {
        messages.push(errors.to_string());
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Findings {
        findings(Path::new("file.yaml"), text, &crate::controller::fixtures::defaults())
    }

    #[test]
    fn a_file_without_a_mini_cluster_is_a_fault() {
        let found = check("apiVersion: v1\nkind: Pod\n");
        assert_eq!(found.checked, 0);
        assert_eq!(found.faults[0].to_string(), "file.yaml: no MiniCluster in this file");
    }

    fn messages(spec: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: hello, labels: {{a: b}}}}\nspec: {spec}\n"
        );
        check(&text).faults.into_iter().map(|fault| fault.message).collect()
    }

    #[test]
    fn every_unknown_field_is_a_fault_as_it_is_for_kubectl() {
        let spec = "{volumes: {}, size: 0, containers: [{image: a, existingVolumes: {}, securityContext: {addCapabilities: []}}]}";
        let found = messages(spec);
        assert_eq!(found.len(), 4, "{found:#?}");
        for (fault, place) in found.iter().zip([
            "spec.containers[0].existingVolumes: no such field: use volumes",
            "spec.containers[0].securityContext.addCapabilities: no such field: use capabilities.add",
            "spec.volumes: no such field: ",
            "spec.size: 0 is out of range",
        ]) {
            assert!(fault.starts_with(place), "{fault}");
        }
    }

    #[test]
    fn entries_of_maps_and_what_kubernetes_defines_are_not_unknown() {
        let spec = "{pod: {labels: {x: one}, overlay: {priorityClassName: high}, resources: {cpu: 1}}, containers: [{image: a, volumes: {x: {path: /x}}, resources: {limits: {cpu: 1}}}]}";
        assert_eq!(messages(spec), Vec::<String>::new());
    }

    #[test]
    fn text_that_is_no_yaml_is_a_fault() {
        assert_eq!(check("a: [").faults.len(), 1);
    }
}
