//! How the agent and the view come into the pods of a new Job: mounted as image volumes, or copied by
//! init containers.
//!
//! A Job keeps the method that it was made with, which is noted on it, and so is the reason: the cluster
//! may be another by the time somebody asks, and a Job's pod template cannot be changed.

use crate::cluster::{AGENT_CONTAINER, Cluster};
use crate::crd::{Install as Wanted, InstallMethod, Installed};
use flux_contract::Install;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

/// Annotation of the Job: method and reason, as `Image: ...`.
const ANNOTATION: &str = "flux-framework.org/install";

/// The reason where the specification, or the operator's option, names the method.
const ASKED_FOR: &str = "asked for";

/// Whether pods of this cluster can have image volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controller) enum ImageVolumeSupport {
    /// API server, kubelets and container runtimes have them.
    Yes,
    /// Something lacks them: what.
    No(String),
    /// Something has them, but switched off unless somebody has switched them on: what.
    Off(String),
    /// It could not be found out: why.
    Unknown(String),
}

/// The method for a new Job, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controller) struct InstallChoice {
    /// The method.
    pub(in crate::controller) method: Install,
    /// Why, in one line.
    pub(in crate::controller) reason: String,
}

impl InstallChoice {
    const fn new(method: Install, reason: String) -> Self {
        Self { method, reason }
    }

    /// Key and value of the annotation that notes it.
    pub(in crate::controller) fn annotation(&self) -> (String, String) {
        let method = match self.method {
            Install::Image => "Image",
            Install::Copy => "Copy",
        };
        (ANNOTATION.to_owned(), format!("{method}: {}", self.reason))
    }

    /// What `job` was made with; `None` where nothing says so, as with Jobs of releases that only copied.
    pub(in crate::controller) fn noted_on(job: &Job) -> Option<Self> {
        let (method, reason) = job.annotations().get(ANNOTATION)?.split_once(": ")?;
        let method = match method {
            "Image" => Install::Image,
            "Copy" => Install::Copy,
            _ => return None,
        };
        Some(Self::new(method, reason.to_owned()))
    }

    /// The same as the status has it.
    pub(in crate::controller) fn reported(&self) -> Installed {
        let method = match self.method {
            Install::Image => InstallMethod::Image,
            Install::Copy => InstallMethod::Copy,
        };
        Installed { method, reason: self.reason.clone() }
    }
}

/// Chooses for a Job that is made now; `None` where that depends on a `support` that nobody has asked
/// for yet.
pub(in crate::controller) fn choose(
    cluster: &Cluster,
    support: Option<&ImageVolumeSupport>,
) -> Option<InstallChoice> {
    let (method, reason) = match (cluster.flux.install, needs_copy(cluster)) {
        (Wanted::Copy, _) => (Install::Copy, ASKED_FOR.to_owned()),
        (Wanted::Auto, Some(why)) => (Install::Copy, why),
        (Wanted::Auto, None) => automatic(support?),
        (Wanted::Image, _) => (Install::Image, image_reason(support?)),
    };
    Some(InstallChoice::new(method, reason))
}

fn automatic(support: &ImageVolumeSupport) -> (Install, String) {
    match support {
        ImageVolumeSupport::Yes => {
            let reason = "the API server and all nodes have image volumes";
            (Install::Image, reason.to_owned())
        }
        ImageVolumeSupport::No(why)
        | ImageVolumeSupport::Off(why)
        | ImageVolumeSupport::Unknown(why) => (Install::Copy, why.clone()),
    }
}

/// The reason where images are mounted because that was asked for.
fn image_reason(support: &ImageVolumeSupport) -> String {
    match support {
        ImageVolumeSupport::Yes => ASKED_FOR.to_owned(),
        ImageVolumeSupport::No(why) => format!("{ASKED_FOR}, but will not work: {why}"),
        ImageVolumeSupport::Off(why) | ImageVolumeSupport::Unknown(why) => {
            format!("{ASKED_FOR}, and may not work: {why}")
        }
    }
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
    let ours = [AGENT_CONTAINER, &cluster.flux.view.name];
    let init = overlaid("initContainers").and_then(|init| init.as_array()).into_iter().flatten();
    let changed =
        init.filter_map(|container| container["name"].as_str()).find(|it| ours.contains(it))?;
    Some(format!("pod.overlay changes the init container {changed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{cluster, job};
    use serde_json::{Value, json};

    fn no() -> ImageVolumeSupport {
        ImageVolumeSupport::No("node n has 1".to_owned())
    }

    fn chosen(spec: &Value, support: &ImageVolumeSupport) -> (Install, String) {
        let InstallChoice { method, reason } = choose(&cluster(spec), Some(support)).unwrap();
        (method, reason)
    }

    fn wanted(method: &str) -> Value {
        json!({ "flux": { "container": { "install": method } } })
    }

    #[test]
    fn images_are_mounted_where_the_cluster_is_known_to_have_image_volumes() {
        let all = "the API server and all nodes have image volumes".to_owned();
        for spec in [json!({}), wanted("Auto")] {
            assert_eq!(chosen(&spec, &ImageVolumeSupport::Yes), (Install::Image, all.clone()));
            assert_eq!(chosen(&spec, &no()), (Install::Copy, "node n has 1".to_owned()));
            for uncertain in [ImageVolumeSupport::Unknown, ImageVolumeSupport::Off] {
                let support = uncertain("nobody knows".to_owned());
                assert_eq!(chosen(&spec, &support), (Install::Copy, "nobody knows".to_owned()));
            }
        }
    }

    #[test]
    fn without_an_answer_nothing_is_chosen_that_depends_on_it() {
        for spec in [json!({}), wanted("Image")] {
            assert_eq!(choose(&cluster(&spec), None), None, "{spec}");
        }
        for spec in [wanted("Copy"), json!({ "pod": { "runtimeClassName": "gvisor" } })] {
            let choice = choose(&cluster(&spec), None).unwrap();
            assert_eq!(choice.method, Install::Copy, "{spec}");
        }
    }

    #[test]
    fn what_was_asked_for_is_taken_and_what_speaks_against_it_is_said() {
        let asked_for = "asked for".to_owned();
        assert_eq!(
            chosen(&wanted("Copy"), &ImageVolumeSupport::Yes),
            (Install::Copy, asked_for.clone())
        );
        assert_eq!(chosen(&wanted("Image"), &ImageVolumeSupport::Yes), (Install::Image, asked_for));
        let (method, reason) = chosen(&wanted("Image"), &no());
        assert_eq!(method, Install::Image);
        assert_eq!(reason, "asked for, but will not work: node n has 1");
        for uncertain in [ImageVolumeSupport::Unknown, ImageVolumeSupport::Off] {
            let (_, reason) = chosen(&wanted("Image"), &uncertain("nobody knows".to_owned()));
            assert_eq!(reason, "asked for, and may not work: nobody knows");
        }
    }

    #[test]
    fn what_image_volumes_may_not_work_with_is_copied_unless_asked_for() {
        for (pod, named) in [
            (json!({ "runtimeClassName": "gvisor" }), "\"gvisor\""),
            (json!({ "overlay": { "runtimeClassName": "kata" } }), "\"kata\""),
            (json!({ "overlay": { "hostUsers": false } }), "hostUsers"),
            (json!({ "overlay": { "initContainers": [{ "name": "flux-view" }] } }), "flux-view"),
        ] {
            let (method, reason) = chosen(&json!({ "pod": pod }), &ImageVolumeSupport::Yes);
            assert_eq!(method, Install::Copy, "{pod}");
            assert!(reason.contains(named), "{reason}");
            let asked = json!({ "pod": pod, "flux": wanted("Image")["flux"] });
            assert_eq!(chosen(&asked, &ImageVolumeSupport::Yes).0, Install::Image, "{pod}");
        }
        let other = json!({ "pod": { "overlay": { "initContainers": [{ "name": "mine", "image": "a" }] } } });
        assert_eq!(chosen(&other, &ImageVolumeSupport::Yes).0, Install::Image);
    }

    #[test]
    fn a_job_says_what_it_was_made_with() {
        let mut made = job(0);
        assert_eq!(InstallChoice::noted_on(&made), None);
        for method in [Install::Image, Install::Copy] {
            let choice = InstallChoice::new(method, "node a: containerd 1.7".to_owned());
            let (key, value) = choice.annotation();
            made.annotations_mut().insert(key, value);
            assert_eq!(InstallChoice::noted_on(&made), Some(choice));
        }
        made.annotations_mut().insert(ANNOTATION.to_owned(), "Teleport: since 3.0".to_owned());
        assert_eq!(InstallChoice::noted_on(&made), None);
    }
}
