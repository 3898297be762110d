//! `spec.autoscale`: what the rules of the definition cannot say.

use super::violations::Violations;
use crate::cluster::{Autoscale, ELASTIC_ANNOTATION, QUEUE_LABEL};
use crate::crd::MiniClusterSpec;
use std::collections::BTreeMap;

/// The bounds of the size, for a Job of these labels and annotations.
pub(super) fn autoscale(
    spec: &MiniClusterSpec,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    faults: &mut Violations,
) -> Option<Autoscale> {
    let autoscale = spec.autoscale.as_ref()?;
    let is_elastic = annotations.get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true");
    faults.require(!labels.contains_key(QUEUE_LABEL) || is_elastic, "spec.autoscale", || {
        format!("the queue of the label {QUEUE_LABEL} would stop all pods for another size: give the MiniCluster the annotation {ELASTIC_ANNOTATION}: \"true\", or leave out one of the two")
    });
    faults.require(!labels.contains_key(QUEUE_LABEL) || autoscale.min_size > 0, "spec.autoscale.minSize", || {
        format!("0 excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: give at least 1")
    });
    Some(Autoscale {
        min_size: autoscale.min_size.unsigned_abs(),
        max_size: autoscale.max_size.unsigned_abs(),
        idle_seconds: u64::from(autoscale.idle_seconds.unsigned_abs()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_queue_that_would_stop_the_pods_for_another_size_is_refused() {
        let document = json!({ "autoscale": { "maxSize": 3 }, "containers": [{ "image": "app" }] });
        let spec = serde_json::from_value(document).unwrap();
        let entry = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let queue = entry(QUEUE_LABEL, "team");
        for (labels, annotations, is_refused) in [
            (BTreeMap::new(), BTreeMap::new(), false),
            (queue.clone(), BTreeMap::new(), true),
            (queue.clone(), entry(ELASTIC_ANNOTATION, "false"), true),
            (queue.clone(), entry(ELASTIC_ANNOTATION, "true"), false),
        ] {
            let mut faults = Violations::default();
            let bounds = autoscale(&spec, &labels, &annotations, &mut faults).unwrap();
            assert_eq!((bounds.min_size, bounds.max_size, bounds.idle_seconds), (1, 3, 60));
            assert_eq!(faults.0.iter().any(|it| it.path == "spec.autoscale"), is_refused);
        }
    }
}
