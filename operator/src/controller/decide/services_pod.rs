//! What a specification means for the pod of `spec.services`.

use super::change::Change;
use crate::cluster::ServicesPod;
use crate::controller::kube_ext::has_failed;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// What is done with the pod there is, and the fields that are refused: a pod cannot be changed, and to replace it would
/// take from the workload what it is using. What another release of the operator builds otherwise is no change.
pub(crate) fn services_pod_change(
    live: Option<&Pod>,
    desired: Option<Pod>,
    asked: Option<&ServicesPod>,
) -> (Change<Pod>, Vec<String>) {
    let Some(live) = live else {
        let change = desired.map_or(Change::Keep, |pod| Change::Create(Box::new(pod)));
        return (change, Vec::new());
    };
    // Its end is noticed, and is followed by another reconcile.
    if live.metadata.deletion_timestamp.is_some() {
        return (Change::Keep, Vec::new());
    }
    // With its restart policy no container's end does that. It was evicted or lost its node: it is made again when it is gone and still asked for.
    if has_failed(live) {
        return (Change::delete(live), Vec::new());
    }
    let refused = asked.map_or_else(
        || vec!["spec.services".to_owned()],
        |asked| asked.fixed_fields.changed_since(live.annotations()),
    );
    (Change::Keep, refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, built, cluster};
    use serde_json::json;

    #[test]
    fn what_runs_stays_whatever_is_asked_for_and_an_evicted_pod_goes() {
        let with =
            |image: &str| cluster(&json!({ "services": [{ "image": image, "name": "db" }] }));
        for (phase, deleted, asked, goes, refused) in [
            ("Running", None, &with("a"), false, None),
            ("Running", None, &with("b"), false, Some("spec.services[0].image")),
            ("Running", None, &cluster(&json!({})), false, Some("spec.services")),
            ("Failed", None, &with("a"), true, None),
            ("Failed", Some(at(1)), &with("a"), false, None),
        ] {
            let mut live = built(&with("a"), 1).services_pod.unwrap();
            live.status.get_or_insert_default().phase = Some(phase.to_owned());
            live.metadata.deletion_timestamp = deleted;
            // Another release may build the same otherwise.
            live.spec.as_mut().unwrap().restart_policy = Some("Always".to_owned());
            let desired = built(asked, 1).services_pod;
            let (change, found) =
                services_pod_change(Some(&live), desired, asked.services_pod.as_ref());
            assert_eq!(change, if goes { Change::delete(&live) } else { Change::Keep });
            assert_eq!(found.first().map(String::as_str), refused);
        }
    }
}
