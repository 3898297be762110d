//! What the API server has left out of the Job. It makes an object without the fields of features that are
//! switched off, and says nothing.

use crate::cluster::Cluster;
use crate::crd::{InstallMethod, Installed};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;

const RESOURCES: &str = "spec.pod.resources";

/// What `job` was to have and does not, each with what has it. `changed` are the fields that were edited since
/// it was made: it does not have those either.
pub(crate) fn dropped(
    cluster: &Cluster,
    install: Option<&Installed>,
    changed: &[String],
    job: &Job,
) -> Vec<String> {
    let Some(pod) = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else {
        return Vec::new();
    };
    let mounts = install.is_some_and(|installed| installed.method == InstallMethod::Image);
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
    use flux_contract::Install;
    use serde_json::json;

    /// As `dropImageVolumes` and `dropDisabledPodLevelResources` do it in `pkg/api/pod/util.go`.
    fn drop_all(pod: &mut PodSpec) {
        pod.volumes.as_mut().unwrap().retain(|volume| volume.image.is_none());
        pod.resources = None;
    }

    #[test]
    fn what_was_left_out_is_named_with_what_has_it_and_nothing_else_is_missed() {
        let (image, resources) = ("the volumes of agent and view", "spec.pod.resources");
        let memory = json!({ "memory": "1Gi" });
        let whole = json!({ "pod": { "resources": memory } });
        let overhead = json!({ "pod": { "resources": memory, "runtimeClassName": "kata" } });
        let keep: fn(&mut PodSpec) = |_| ();
        for (spec, method, change, edited, expected) in [
            (&whole, InstallMethod::Image, keep, &[][..], &[][..]),
            (&whole, InstallMethod::Image, drop_all, &[], &[image, resources]),
            (&whole, InstallMethod::Copy, keep, &[], &[]),
            (&whole, InstallMethod::Copy, drop_all, &[], &[resources]),
            (&whole, InstallMethod::Copy, drop_all, &[resources], &[]),
            (&overhead, InstallMethod::Copy, keep, &[], &[]),
            (&json!({}), InstallMethod::Image, keep, &[], &[]),
        ] {
            let cluster = cluster(spec);
            let installed = Installed { method, reason: "asked for".to_owned() };
            let built = if method == InstallMethod::Image { Install::Image } else { Install::Copy };
            let mut job = built_with(&cluster, built).job;
            change(job.spec.as_mut().unwrap().template.spec.as_mut().unwrap());
            let edited: Vec<String> = edited.iter().map(|it: &&str| (*it).to_owned()).collect();
            let found = dropped(&cluster, Some(&installed), &edited, &job);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(
                found.iter().zip(expected).all(|(it, begin)| it.starts_with(begin)),
                "{found:?}"
            );
            // The same of what is stored of it.
            strip_job(&mut job);
            assert_eq!(dropped(&cluster, Some(&installed), &edited, &job), found);
        }
    }
}
