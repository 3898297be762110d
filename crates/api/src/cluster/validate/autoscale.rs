//! Rules of `spec.autoscale` that CEL cannot express.

use super::violations::Violations;
use crate::cluster::{ELASTIC_ANNOTATION, QUEUE_LABEL};
use crate::crd::MiniClusterSpec;
use std::collections::BTreeMap;

/// Checks `spec.autoscale` for a Job with these labels and annotations.
pub(super) fn autoscale(
    spec: &MiniClusterSpec,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    faults: &mut Violations,
) {
    let Some(autoscale) = &spec.autoscale else { return };
    let is_elastic = annotations.get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true");
    faults.require(!labels.contains_key(QUEUE_LABEL) || is_elastic, "spec.autoscale", || {
        format!("the queue of the label {QUEUE_LABEL} would stop all pods for another size: give the MiniCluster the annotation {ELASTIC_ANNOTATION}: \"true\", or leave out one of the two")
    });
    faults.require(!labels.contains_key(QUEUE_LABEL) || autoscale.min_size > 0, "spec.autoscale.minSize", || {
        format!("0 excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: give at least 1")
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mini_cluster;
    use serde_json::json;

    #[test]
    fn autoscaling_in_a_queue_needs_an_elastic_job() {
        let spec = mini_cluster(&json!({ "autoscale": { "maxSize": 3 } })).spec;
        let entry = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let queue = entry(QUEUE_LABEL, "team");
        for (labels, annotations, is_refused) in [
            (BTreeMap::new(), BTreeMap::new(), false),
            (queue.clone(), BTreeMap::new(), true),
            (queue.clone(), entry(ELASTIC_ANNOTATION, "false"), true),
            (queue.clone(), entry(ELASTIC_ANNOTATION, "true"), false),
        ] {
            let mut faults = Violations::default();
            autoscale(&spec, &labels, &annotations, &mut faults);
            assert_eq!(faults.0.iter().any(|it| it.path == "spec.autoscale"), is_refused);
        }
    }
}
