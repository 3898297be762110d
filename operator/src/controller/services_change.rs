//! What a changed specification means for the services pod that exists.

use super::job_change::{GENERATION_ANNOTATION, changed_parts, noted_generation};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// What to do with the services pod.
#[derive(Debug, Clone, PartialEq)]
pub enum ServicesChange {
    /// There is none yet, and one is asked for.
    Create(Box<Pod>),
    /// Leave it alone.
    Keep,
    /// Note by a merge patch that it is in line with the present generation.
    Note(Value),
    /// It was evicted or lost its node: it is deleted, and made again when it is gone.
    Delete,
    /// What was asked for is not what runs, and a pod cannot be changed. To replace it would take
    /// from the workload what it is using, so the user is told instead.
    Refuse,
}

/// Decides from the pod there is and the one that would be built now.
pub fn services_change(live: Option<&Pod>, desired: Option<&Pod>) -> ServicesChange {
    match (live, desired) {
        (None, None) => ServicesChange::Keep,
        (None, Some(desired)) => ServicesChange::Create(Box::new(desired.clone())),
        // Its end is noticed, and is looked at again.
        (Some(live), _) if live.metadata.deletion_timestamp.is_some() => ServicesChange::Keep,
        (Some(live), Some(_)) if has_failed(live) => ServicesChange::Delete,
        (Some(live), Some(desired)) if noted_generation(live) == noted_generation(desired) => {
            ServicesChange::Keep
        }
        (Some(live), Some(desired)) if changed_parts(live, desired).is_empty() => {
            let generation = noted_generation(desired);
            ServicesChange::Note(json!({
                "metadata": { "annotations": { GENERATION_ANNOTATION: generation } },
            }))
        }
        (Some(_), None | Some(_)) => ServicesChange::Refuse,
    }
}

/// Failed as a whole: with its restart policy no container's end does that.
fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built, cluster};

    /// The services pod with `image`, as generation `generation` asks for it.
    fn pod(generation: i64, image: &str) -> Pod {
        let spec = json!({ "services": [{ "image": image, "name": "db" }] });
        built(&cluster(&spec), generation).services_pod.unwrap()
    }

    #[test]
    fn a_pod_is_made_once() {
        assert_eq!(services_change(None, None), ServicesChange::Keep);
        let desired = pod(1, "a");
        let create = ServicesChange::Create(Box::new(desired.clone()));
        assert_eq!(services_change(None, Some(&desired)), create);
        assert_eq!(services_change(Some(&desired), Some(&desired)), ServicesChange::Keep);
    }

    #[test]
    fn another_image_or_none_at_all_is_refused_while_it_runs() {
        assert_eq!(services_change(Some(&pod(1, "a")), Some(&pod(2, "b"))), ServicesChange::Refuse);
        assert_eq!(services_change(Some(&pod(1, "a")), None), ServicesChange::Refuse);
    }

    #[test]
    fn another_way_to_build_the_same_generation_is_no_change() {
        assert_eq!(services_change(Some(&pod(1, "a")), Some(&pod(1, "b"))), ServicesChange::Keep);
    }

    #[test]
    fn a_change_elsewhere_is_noted() {
        let ServicesChange::Note(patch) = services_change(Some(&pod(1, "a")), Some(&pod(2, "a")))
        else {
            panic!("not noted")
        };
        assert_eq!(patch["metadata"]["annotations"][GENERATION_ANNOTATION], "2");
    }

    #[test]
    fn an_evicted_pod_goes_and_one_that_goes_is_waited_for() {
        let mut live = pod(1, "a");
        live.status.get_or_insert_default().phase = Some("Failed".to_owned());
        assert_eq!(services_change(Some(&live), Some(&pod(1, "a"))), ServicesChange::Delete);
        live.metadata.deletion_timestamp = Some(crate::controller::fixtures::at(1));
        assert_eq!(services_change(Some(&live), Some(&pod(1, "a"))), ServicesChange::Keep);
    }
}
