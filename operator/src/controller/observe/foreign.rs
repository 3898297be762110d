//! Finds runs that another operator or another release has started, which this one leaves as they are.

use crate::controller::job_ext::noted_generation;
use flux_api::cluster::AGENT_CONTAINER;
use flux_contract::ClusterName;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

/// Another actor that has started the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Foreign {
    Operator,
    /// A release whose agents are of this image: this operator cannot read their configuration, or the configuration
    /// is gone and they may not be able to read a new one.
    Release(String),
}

/// The other actor that has started the run of `job`. `has_config_map` and `is_readable` concern the agents'
/// configuration; `agent_image` is this operator's.
pub(crate) fn foreign(
    job: &Job,
    has_config_map: bool,
    is_readable: bool,
    agent_image: &str,
) -> Option<Foreign> {
    if noted_generation(job).is_none() {
        return Some(Foreign::Operator);
    }
    let image = image(job).unwrap_or_default();
    let is_other = !is_readable && (has_config_map || image != agent_image);
    is_other.then(|| Foreign::Release(image.to_owned()))
}

/// The image from which the pods of `job` copy or mount the agent.
fn image(job: &Job) -> Option<&str> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let mut containers = pod.init_containers.iter().flatten();
    let copies_agent = containers.clone().find(|container| container.name == AGENT_CONTAINER);
    if let Some(container) = copies_agent {
        return container.image.as_deref();
    }
    let name = ClusterName::new(&job.name_any()).ok()?;
    let volume = |name: String| pod.volumes.iter().flatten().find(|volume| volume.name == name);
    // One image may have both agent and view.
    match volume(name.agent_image_volume()).or_else(|| volume(name.view_image_volume())) {
        Some(mounted) => mounted.image.as_ref()?.reference.as_deref(),
        None => containers.next()?.image.as_deref(),
    }
}
