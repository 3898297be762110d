//! Why a pod does not start, from its status alone.

use k8s_openapi::api::core::v1::Pod;

/// Reasons of waiting containers that only need more time.
const NOT_YET: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// Why `pod` does not start, without the subject: it has no node, or a container does not start. `None` if it only needs
/// time, or if its status does not have the reason.
pub fn of_pod(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    if let Some(scheduled) =
        conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False")
    {
        let message = scheduled.message.as_deref().unwrap_or("not scheduled");
        return Some(format!("has no node: {message}"));
    }
    // Why a main container waits matters more than why an init container does.
    let main = status.container_statuses.iter().flatten();
    let mut containers = main.chain(status.init_container_statuses.iter().flatten());
    containers.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| !NOT_YET.contains(reason))?;
        let message = waiting.message.as_deref().unwrap_or_default();
        Some(format!("does not start container {}: {reason} {message}", container.name))
    })
}
