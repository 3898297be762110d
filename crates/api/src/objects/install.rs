//! Chooses how the agent and the view come into the pods of a new Job: mounted as image volumes, or copied by init
//! containers. The Job has a note of method and reason and keeps the method, because its pod template cannot change.

use crate::cluster::{AGENT_CONTAINER, Cluster};
use crate::crd::{Install as Wanted, InstallMethod, Installed};
use flux_contract::Install;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

/// Annotation of the Job: method and reason, as `Image: ...`.
const INSTALL_ANNOTATION: &str = "flux-framework.org/install";

/// The reason if the specification or the operator's option decides.
const REQUESTED: &str = "requested";

/// Ok if pods can have image volumes, else why not.
pub type ImageVolumeSupport = Result<(), String>;

/// Key and value of the annotation with `installed`.
pub fn annotation(installed: &Installed) -> (String, String) {
    (INSTALL_ANNOTATION.to_owned(), format!("{:?}: {}", installed.method, installed.reason))
}

/// The method of `job`; `None` without the annotation, as on Jobs of releases that could only copy.
pub fn noted_on(job: &Job) -> Option<Installed> {
    let (method, reason) = job.annotations().get(INSTALL_ANNOTATION)?.split_once(": ")?;
    let method = serde_json::from_value(method.into()).ok()?;
    Some(Installed { method, reason: reason.to_owned() })
}

/// The method for the agents' configuration; the default for a Job without the annotation.
pub fn method(installed: Option<&Installed>) -> Install {
    match installed.map(|installed| installed.method) {
        Some(InstallMethod::Image) => Install::Image,
        Some(InstallMethod::Copy) => Install::Copy,
        None => Install::default(),
    }
}

/// False if the method for a new Job is the same whether or not the nodes have image volumes.
pub fn depends_on_nodes(cluster: &Cluster) -> bool {
    match cluster.flux.install {
        Wanted::Copy => false,
        Wanted::Auto => needs_copy(cluster).is_none(),
        Wanted::Image => true,
    }
}

/// Chooses the method for a new Job.
pub fn choose(cluster: &Cluster, support: &ImageVolumeSupport) -> Installed {
    let requested = REQUESTED.to_owned();
    let (method, reason) = match (cluster.flux.install, needs_copy(cluster)) {
        (Wanted::Copy, _) => (InstallMethod::Copy, requested),
        (Wanted::Auto, Some(why)) => (InstallMethod::Copy, why),
        (Wanted::Auto, None) => match support {
            Ok(()) => {
                let reason = "the API server and all nodes have image volumes";
                (InstallMethod::Image, reason.to_owned())
            }
            Err(lack) => (InstallMethod::Copy, lack.clone()),
        },
        (Wanted::Image, _) => {
            let may_not = |lack: &String| format!("{REQUESTED}, and may not work: {lack}");
            let reason = support.as_ref().err().map_or(requested, may_not);
            (InstallMethod::Image, reason)
        }
    };
    Installed { method, reason }
}

/// Why the specification needs copies, if it does.
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

#[cfg(test)]
mod tests {
    use super::*;
    use InstallMethod::{Copy, Image};

    #[test]
    fn a_job_has_a_note_of_its_install_method() {
        let mut made = Job::default();
        assert_eq!(noted_on(&made), None);
        for method in [Image, Copy] {
            let installed = Installed { method, reason: "node a: containerd 1.7".to_owned() };
            made.annotations_mut().extend([annotation(&installed)]);
            assert_eq!(noted_on(&made), Some(installed));
        }
        made.annotations_mut()
            .insert(INSTALL_ANNOTATION.to_owned(), "Teleport: since 3.0".to_owned());
        assert_eq!(noted_on(&made), None);
    }
}
