//! What the API server has left out of the Job. It makes an object without the fields of features that are
//! switched off, and says nothing.

use super::install::InstallChoice;
use crate::cluster::Cluster;
use flux_contract::Install;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;

/// The field that pod-level resources come from.
const RESOURCES: &str = "spec.pod.resources";

/// What `job` was to have and does not, each with what has it. `changed` are the fields that were edited since
/// it was made: it does not have those either.
pub(in crate::controller) fn dropped(
    cluster: &Cluster,
    install: Option<&InstallChoice>,
    changed: &[String],
    job: &Job,
) -> Vec<String> {
    let Some(pod) = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else {
        return Vec::new();
    };
    let mounts = install.is_some_and(|choice| choice.method == Install::Image);
    let images = (mounts && !mounts_images(pod)).then(|| {
        "the volumes of agent and view (feature ImageVolume, on from Kubernetes 1.35 on): set \
         spec.flux.container.install to Copy"
            .to_owned()
    });
    let edited = changed.iter().any(|field| field.starts_with(RESOURCES));
    let asks = cluster.pod.spec.resources.is_some() && !edited;
    let resources = (asks && pod.resources.is_none())
        .then(|| format!("{RESOURCES} (feature PodLevelResources, on from Kubernetes 1.34 on)"));
    images.into_iter().chain(resources).collect()
}

fn mounts_images(pod: &PodSpec) -> bool {
    pod.volumes.iter().flatten().any(|volume| volume.image.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built_with, cluster};
    use crate::controller::observe::stores::strip_job;
    use serde_json::{Value, json};

    fn with_resources() -> Value {
        json!({ "pod": { "resources": { "memory": "1Gi" } } })
    }

    /// What is found out of the Job of `spec`, made by `method`, after `change`; and the same of what is stored of it.
    fn found(spec: &Value, method: Install, change: impl Fn(&mut PodSpec)) -> Vec<String> {
        let cluster = cluster(spec);
        let mut job = built_with(&cluster, method).job;
        change(job.spec.as_mut().unwrap().template.spec.as_mut().unwrap());
        let choice = InstallChoice { method, reason: "asked for".to_owned() };
        let found = dropped(&cluster, Some(&choice), &[], &job);
        strip_job(&mut job);
        assert_eq!(dropped(&cluster, Some(&choice), &[], &job), found);
        found
    }

    /// As `dropImageVolumes` and `dropDisabledPodLevelResources` do it in `pkg/api/pod/util.go`.
    fn drop_all(pod: &mut PodSpec) {
        pod.volumes.as_mut().unwrap().retain(|volume| volume.image.is_none());
        pod.resources = None;
    }

    #[test]
    fn what_is_there_is_not_missed() {
        for method in [Install::Image, Install::Copy] {
            assert_eq!(found(&with_resources(), method, |_| ()), [""; 0]);
            assert_eq!(found(&json!({}), method, |pod| pod.resources = None), [""; 0]);
        }
    }

    #[test]
    fn what_was_left_out_is_named_with_what_has_it() {
        let all = found(&with_resources(), Install::Image, drop_all);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("ImageVolume") && all[0].contains("Copy"), "{all:?}");
        assert!(all[1].starts_with("spec.pod.resources"), "{all:?}");
        let copied = found(&with_resources(), Install::Copy, drop_all);
        assert_eq!(copied, all[1..]);
    }

    #[test]
    fn resources_that_are_the_overhead_of_a_class_are_not_missed() {
        let spec =
            json!({ "pod": { "resources": { "memory": "1Gi" }, "runtimeClassName": "kata" } });
        assert_eq!(found(&spec, Install::Copy, |_| ()), [""; 0]);
    }

    #[test]
    fn what_was_edited_later_was_not_left_out() {
        let job = built_with(&cluster(&json!({})), Install::Copy).job;
        let edited = ["spec.pod.resources".to_owned()];
        assert_eq!(dropped(&cluster(&with_resources()), None, &edited, &job), [""; 0]);
    }
}
