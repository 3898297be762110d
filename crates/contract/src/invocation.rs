//! The agent's command line, as far as the operator writes it into containers. The agent's own
//! definition of its command line is tested against every function here.

use crate::agent_config::Install;
use crate::layout::{AGENT_MOUNT, INSTALL_MOUNT, Layout};
use std::path::Path;

/// Where the agent lies in its own image, with `flux-rest` and the link [`Layout::client`] beside it and nothing else
/// unless the view is in the same image: mounted whole at [`AGENT_MOUNT`], it is what the init container makes there.
pub const AGENT_IN_IMAGE: &str = "/flux-agent";

/// What the agent image's init container does: copies the agent into the shared volume.
pub fn install() -> Vec<String> {
    let directory = Layout::new(INSTALL_MOUNT).bin_dir().display().to_string();
    words([AGENT_IN_IMAGE, "install", &directory])
}

/// What the view's init container does: copies Flux into the volume that others mount at `mount_path`.
pub fn install_view(mount_path: &str) -> Vec<String> {
    view_install(&agent(&Layout::new(INSTALL_MOUNT), Install::Copy), mount_path)
}

/// What the only init container does where the agent is in the view's image: copies both.
pub fn install_both(mount_path: &str) -> Vec<String> {
    let mut all = view_install(AGENT_IN_IMAGE, mount_path);
    all.push("--agent".to_owned());
    all
}

fn view_install(agent: &str, mount_path: &str) -> Vec<String> {
    words([agent, "view", "install", "--mount-path", mount_path, "--destination", INSTALL_MOUNT])
}

/// Variables of the runner that count the pods of its index which the Job controller has replaced, from
/// the annotations that it gives each new pod (KEP-3850, `backoffLimitPerIndex`): those that count as
/// failures, and those that its failure policy ignores. Empty in a Job that does not count by index.
pub const REPLACED_VARIABLES: [(&str, &str); 2] = [
    ("FLUX_OPERATOR_REPLACED_FAILED", "batch.kubernetes.io/job-index-failure-count"),
    ("FLUX_OPERATOR_REPLACED_STOPPED", "batch.kubernetes.io/job-index-ignored-failure-count"),
];

/// Port of the pod at which PID 1 answers whether the pod is ready, and, to the operator alone, what its queue needs
/// ([`demand`](crate::demand)).
pub const READY_PORT: u16 = 18049;
/// Path of that question. With `?wait=SECONDS` the answer waits so long for the pod to be ready.
pub const READY_PATH: &str = "/ready";

/// Port of the lead's pod at which the API of the instance is served unless `flux.rest.port` is another.
pub const REST_PORT: u16 = 18050;

/// Runs the pod, whose readiness is asked for at [`READY_PORT`].
pub fn run(layout: &Layout, install: Install) -> Vec<String> {
    words([&agent(layout, install), "run", "--probe-port", &READY_PORT.to_string()])
}

/// Runs sidecar `name` of the configuration.
pub fn run_sidecar(layout: &Layout, install: Install, name: &str) -> Vec<String> {
    words([&agent(layout, install), "run", "--container", name])
}

/// Where the agent is before any agent of the pod has run.
fn agent(layout: &Layout, install: Install) -> String {
    let path = match install {
        Install::Copy => layout.agent(),
        Install::Image => Path::new(AGENT_MOUNT).join(Layout::AGENT_NAME),
    };
    path.display().to_string()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}
