//! What a specification means for the pod of `spec.services`.

use super::change::Change;
use crate::cluster::ServicesPod;
use crate::controller::kube_ext::has_failed;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Decides from the pod there is, the one that would be built now, and what is asked for. What
/// another release of the operator builds otherwise is no change.
///
/// Besides the change: the fields that are refused. What was asked for is not what runs, a pod cannot
/// be changed, and to replace it would take from the workload what it is using.
pub(in crate::controller) fn services_pod_change(
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
    use crate::cluster::Cluster;
    use crate::controller::fixtures::{at, built, cluster};
    use serde_json::json;

    /// A cluster whose pod of `spec.services` has `image`.
    fn with(image: &str) -> Cluster {
        cluster(&json!({ "services": [{ "image": image, "name": "db" }] }))
    }

    fn pod(cluster: &Cluster) -> Option<Pod> {
        built(cluster, 1).services_pod
    }

    /// What is decided of `live` when `asked` is asked for.
    fn change(live: Option<&Pod>, asked: &Cluster) -> (Change<Pod>, Vec<String>) {
        services_pod_change(live, pod(asked), asked.services_pod.as_ref())
    }

    fn keep() -> (Change<Pod>, Vec<String>) {
        (Change::Keep, Vec::new())
    }

    #[test]
    fn another_image_or_none_at_all_is_refused_while_it_runs() {
        let live = pod(&with("a"));
        let refused = |field: &str| (Change::Keep, vec![field.to_owned()]);
        assert_eq!(change(live.as_ref(), &with("b")), refused("spec.services[0].image"));
        assert_eq!(change(live.as_ref(), &cluster(&json!({}))), refused("spec.services"));
    }

    #[test]
    fn another_way_to_build_the_same_is_no_change() {
        let mut live = pod(&with("a")).unwrap();
        live.spec.as_mut().unwrap().restart_policy = Some("Always".to_owned());
        assert_eq!(change(Some(&live), &with("a")), keep());
    }

    #[test]
    fn an_evicted_pod_goes_and_one_that_goes_is_waited_for() {
        let mut live = pod(&with("a")).unwrap();
        live.status.get_or_insert_default().phase = Some("Failed".to_owned());
        assert_eq!(change(Some(&live), &with("a")), (Change::delete(&live), Vec::new()));
        live.metadata.deletion_timestamp = Some(at(1));
        assert_eq!(change(Some(&live), &with("a")), keep());
    }
}
