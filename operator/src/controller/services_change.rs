//! What a changed specification means for the services pod that exists.

use crate::cluster::ServicesPod;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// What to do with the services pod.
#[derive(Debug, Clone, PartialEq)]
pub enum ServicesChange {
    /// There is none yet, and one is asked for.
    Create(Box<Pod>),
    /// Leave it alone.
    Keep,
    /// It was evicted or lost its node: it is deleted, and made again when it is gone and still asked
    /// for.
    Delete,
    /// What was asked for is not what runs, and a pod cannot be changed. To replace it would take
    /// from the workload what it is using, so the user is told these fields instead.
    Refuse(Vec<String>),
}

/// Decides from the pod there is, the one that would be built now, and what is asked for. What
/// another release of the operator builds otherwise is no change.
pub fn services_change(
    live: Option<&Pod>,
    desired: Option<&Pod>,
    services: Option<&ServicesPod>,
) -> ServicesChange {
    let Some(live) = live else {
        let create = |desired: &Pod| ServicesChange::Create(Box::new(desired.clone()));
        return desired.map_or(ServicesChange::Keep, create);
    };
    // Its end is noticed, and is looked at again.
    if live.metadata.deletion_timestamp.is_some() {
        return ServicesChange::Keep;
    }
    if has_failed(live) {
        return ServicesChange::Delete;
    }
    let Some(services) = services else {
        return ServicesChange::Refuse(vec!["spec.services".to_owned()]);
    };
    let fields = services.fixed_fields.changed_since(live.annotations());
    if fields.is_empty() { ServicesChange::Keep } else { ServicesChange::Refuse(fields) }
}

/// Failed as a whole: with its restart policy no container's end does that.
fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::controller::fixtures::{at, built, cluster};
    use serde_json::json;

    /// A cluster whose services pod has `image`.
    fn with(image: &str) -> Cluster {
        cluster(&json!({ "services": [{ "image": image, "name": "db" }] }))
    }

    fn pod(cluster: &Cluster) -> Option<Pod> {
        built(cluster, 1).services_pod
    }

    /// What is decided of `live` when `asked` is asked for.
    fn change(live: Option<&Pod>, asked: &Cluster) -> ServicesChange {
        services_change(live, pod(asked).as_ref(), asked.services.as_ref())
    }

    #[test]
    fn a_pod_is_made_once() {
        let none = cluster(&json!({}));
        assert_eq!(change(None, &none), ServicesChange::Keep);
        let desired = pod(&with("a")).unwrap();
        assert_eq!(change(None, &with("a")), ServicesChange::Create(Box::new(desired.clone())));
        assert_eq!(change(Some(&desired), &with("a")), ServicesChange::Keep);
    }

    #[test]
    fn another_image_or_none_at_all_is_refused_while_it_runs() {
        let live = pod(&with("a"));
        let refuse = |field: &str| ServicesChange::Refuse(vec![field.to_owned()]);
        assert_eq!(change(live.as_ref(), &with("b")), refuse("spec.services[0].image"));
        assert_eq!(change(live.as_ref(), &cluster(&json!({}))), refuse("spec.services"));
    }

    #[test]
    fn another_way_to_build_the_same_is_no_change() {
        let mut live = pod(&with("a")).unwrap();
        live.spec.as_mut().unwrap().restart_policy = Some("Always".to_owned());
        assert_eq!(change(Some(&live), &with("a")), ServicesChange::Keep);
    }

    #[test]
    fn an_evicted_pod_goes_and_one_that_goes_is_waited_for() {
        let mut live = pod(&with("a")).unwrap();
        live.status.get_or_insert_default().phase = Some("Failed".to_owned());
        assert_eq!(change(Some(&live), &with("a")), ServicesChange::Delete);
        live.metadata.deletion_timestamp = Some(at(1));
        assert_eq!(change(Some(&live), &with("a")), ServicesChange::Keep);
    }
}
