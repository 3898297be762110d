//! How the agent and the view come into the pods of a new Job: mounted as image volumes, or copied by init
//! containers. A Job keeps the method that it was made with, which is noted on it, and so is the reason: the cluster
//! may be another by the time somebody asks, and a Job's pod template cannot be changed.

use crate::cluster::{AGENT_CONTAINER, Cluster};
use crate::crd::{Install as Wanted, InstallMethod, Installed};
use flux_contract::Install;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;
use kube::ResourceExt as _;
use serde_json::Value;

/// Annotation of the Job: method and reason, as `Image: ...`.
const ANNOTATION: &str = "flux-framework.org/install";

/// The field that pod-level resources come from.
const RESOURCES: &str = "spec.pod.resources";

/// The field that claims of devices come from.
const OVERLAY: &str = "spec.pod.overlay";

/// The reason where the specification, or the operator's option, names the method.
const ASKED_FOR: &str = "asked for";

/// What the cluster lacks, if it does.
pub(crate) type ImageVolumeSupport = Result<(), String>;

/// Key and value of the annotation that notes `installed`.
pub(crate) fn annotation(installed: &Installed) -> (String, String) {
    (ANNOTATION.to_owned(), format!("{:?}: {}", installed.method, installed.reason))
}

/// What `job` was made with; `None` where nothing says so, as with Jobs of releases that only copied.
pub(crate) fn noted_on(job: &Job) -> Option<Installed> {
    let (method, reason) = job.annotations().get(ANNOTATION)?.split_once(": ")?;
    let method = serde_json::from_value(method.into()).ok()?;
    Some(Installed { method, reason: reason.to_owned() })
}

pub(crate) fn method(installed: Option<&Installed>) -> Install {
    match installed.map(|installed| installed.method) {
        Some(InstallMethod::Image) => Install::Image,
        Some(InstallMethod::Copy) => Install::Copy,
        None => Install::default(),
    }
}

/// Chooses for a Job that is made now.
pub(crate) fn choose(cluster: &Cluster, support: &ImageVolumeSupport) -> Installed {
    let asked_for = ASKED_FOR.to_owned();
    let (method, reason) = match (cluster.flux.install, needs_copy(cluster)) {
        (Wanted::Copy, _) => (InstallMethod::Copy, asked_for),
        (Wanted::Auto, Some(why)) => (InstallMethod::Copy, why),
        (Wanted::Auto, None) => match support {
            Ok(()) => {
                let reason = "the API server and all nodes have image volumes";
                (InstallMethod::Image, reason.to_owned())
            }
            Err(lack) => (InstallMethod::Copy, lack.clone()),
        },
        (Wanted::Image, _) => {
            let may_not = |lack: &String| format!("{ASKED_FOR}, and may not work: {lack}");
            let reason = support.as_ref().err().map_or(asked_for, may_not);
            (InstallMethod::Image, reason)
        }
    };
    Installed { method, reason }
}

/// What in the specification speaks for copying, if anything does.
fn needs_copy(cluster: &Cluster) -> Option<String> {
    let overlay = cluster.pod.overlay.as_ref();
    let overlaid = |field: &str| overlay.and_then(|overlay| overlay.get(field));
    let class = overlaid("runtimeClassName").and_then(|class| class.as_str());
    if let Some(class) = class.or(cluster.pod.spec.runtime_class_name.as_deref()) {
        return Some(format!(
            "not every runtime mounts images, and there is runtime class {class:?}"
        ));
    }
    if overlaid("hostUsers").is_some_and(|host| *host == false) {
        let reason = "not every runtime mounts images in user namespaces, and hostUsers is false";
        return Some(reason.to_owned());
    }
    let ours = [AGENT_CONTAINER, &cluster.flux.view.container.name];
    let init = overlaid("initContainers").and_then(|init| init.as_array()).into_iter().flatten();
    let changed =
        init.filter_map(|container| container["name"].as_str()).find(|it| ours.contains(it))?;
    Some(format!("pod.overlay changes the init container {changed}"))
}

/// What `job` was to have and does not, each with what has it: the API server makes an object without the fields of
/// features that are switched off, and says nothing. `changed` are the fields that were edited since it was made.
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
    let is_edited = |path: &str| changed.iter().any(|field| field.starts_with(path));
    let asks = cluster.pod.spec.resources.is_some() && !is_edited(RESOURCES);
    let resources = (asks && pod.resources.is_none())
        .then(|| format!("{RESOURCES} (feature PodLevelResources, on from Kubernetes 1.34 on)"));
    let claims = cluster.pod.overlay.as_ref().map(|overlay| &overlay["resourceClaims"]);
    let asks = claims.and_then(Value::as_array).is_some_and(|claims| !claims.is_empty());
    let claims = (asks && !is_edited(OVERLAY) && pod.resource_claims.is_none()).then(|| {
        format!("{OVERLAY}.resourceClaims (feature DynamicResourceAllocation, on from Kubernetes 1.34 on)")
    });
    images.into_iter().chain(resources).chain(claims).collect()
}

fn mounts_images(pod: &PodSpec) -> bool {
    pod.volumes.iter().flatten().any(|volume| volume.image.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built_with, cluster, job};
    use crate::controller::observe::stores::strip_job;
    use InstallMethod::{Copy, Image};
    use serde_json::json;

    fn wanted(method: &str) -> Value {
        json!({ "flux": { "container": { "install": method } } })
    }

    #[test]
    fn the_method_is_what_was_asked_for_or_what_the_cluster_has_and_the_reason_says_so() {
        let (yes, no) = (Ok(()), Err("node n has 1".to_owned()));
        for (wants, support, method, reason) in [
            ("Auto", &yes, Image, "the API server and all nodes have image volumes"),
            ("Auto", &no, Copy, "node n has 1"),
            ("Copy", &yes, Copy, "asked for"),
            ("Image", &yes, Image, "asked for"),
            ("Image", &no, Image, "asked for, and may not work: node n has 1"),
        ] {
            let expected = Installed { method, reason: reason.to_owned() };
            assert_eq!(choose(&cluster(&wanted(wants)), support), expected);
        }
    }

    #[test]
    fn what_image_volumes_may_not_work_with_is_copied_unless_asked_for() {
        let mine = json!([{ "name": "mine", "image": "a" }]);
        for (pod, named) in [
            (json!({ "runtimeClassName": "gvisor" }), Some("\"gvisor\"")),
            (json!({ "overlay": { "runtimeClassName": "kata" } }), Some("\"kata\"")),
            (json!({ "overlay": { "hostUsers": false } }), Some("hostUsers")),
            (
                json!({ "overlay": { "initContainers": [{ "name": "flux-view" }] } }),
                Some("flux-view"),
            ),
            (json!({ "overlay": { "initContainers": mine } }), None),
        ] {
            let auto = choose(&cluster(&json!({ "pod": pod })), &Ok(()));
            assert_eq!(auto.method, if named.is_some() { Copy } else { Image }, "{pod}");
            assert!(auto.reason.contains(named.unwrap_or("image volumes")), "{}", auto.reason);
            let asked = json!({ "pod": pod, "flux": wanted("Image")["flux"] });
            assert_eq!(choose(&cluster(&asked), &Ok(())).method, Image, "{pod}");
        }
    }

    #[test]
    fn a_job_says_what_it_was_made_with() {
        let mut made = job(0);
        assert_eq!(noted_on(&made), None);
        for method in [Image, Copy] {
            let installed = Installed { method, reason: "node a: containerd 1.7".to_owned() };
            made.annotations_mut().extend([annotation(&installed)]);
            assert_eq!(noted_on(&made), Some(installed));
        }
        made.annotations_mut().insert(ANNOTATION.to_owned(), "Teleport: since 3.0".to_owned());
        assert_eq!(noted_on(&made), None);
    }

    /// As `dropImageVolumes`, `dropDisabledPodLevelResources` and `dropDisabledDynamicResourceAllocationFields` do it in
    /// `pkg/api/pod/util.go`.
    fn drop_all(pod: &mut PodSpec) {
        pod.volumes.as_mut().unwrap().retain(|volume| volume.image.is_none());
        pod.resources = None;
        pod.resource_claims = None;
    }

    #[test]
    fn what_was_left_out_is_named_with_what_has_it_and_nothing_else_is_missed() {
        let (image, resources) = ("the volumes of agent and view", "spec.pod.resources");
        let memory = json!({ "memory": "1Gi" });
        let whole = json!({ "pod": { "resources": memory } });
        let overhead = json!({ "pod": { "resources": memory, "runtimeClassName": "kata" } });
        let claims = "spec.pod.overlay.resourceClaims";
        let claim = json!([{ "name": "gpu", "resourceClaimTemplateName": "gpu" }]);
        let claimed = json!({ "pod": { "overlay": { "resourceClaims": claim } } });
        let keep: fn(&mut PodSpec) = |_| ();
        for (spec, method, change, edited, expected) in [
            (&whole, Image, keep, &[][..], &[][..]),
            (&whole, Image, drop_all, &[], &[image, resources]),
            (&whole, Copy, keep, &[], &[]),
            (&whole, Copy, drop_all, &[], &[resources]),
            (&whole, Copy, drop_all, &[resources], &[]),
            (&overhead, Copy, keep, &[], &[]),
            (&claimed, Copy, keep, &[], &[]),
            (&claimed, Copy, drop_all, &[], &[claims]),
            (&claimed, Copy, drop_all, &["spec.pod.overlay"], &[]),
            (&json!({}), Image, keep, &[], &[]),
        ] {
            let cluster = cluster(spec);
            let installed = Installed { method, reason: "asked for".to_owned() };
            let built = if method == Image { Install::Image } else { Install::Copy };
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
