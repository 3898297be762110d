//! The agent's command line, as far as the operator writes it into containers. The agent's own
//! definition of its command line is tested against every function here.

use crate::agent_config::Install;
use crate::layout::{AGENT_MOUNT, INSTALL_MOUNT, Layout, join};

/// The path of the agent in its own image. Beside it are only `flux-rest` and the link [`Layout::client`], unless the
/// image also contains the view: the whole image is mounted at [`AGENT_MOUNT`], where the init container makes the same
/// files.
pub const AGENT_IN_IMAGE: &str = "/flux-agent";

/// The command of the agent image's init container: copies the agent into the shared volume.
pub fn install() -> Vec<String> {
    argv([AGENT_IN_IMAGE, "install", &Layout::new(INSTALL_MOUNT).bin_dir()])
}

/// The command of the view's init container: copies Flux into the volume that other containers mount at `mount_path`.
pub fn install_view(mount_path: &str) -> Vec<String> {
    view_install(&agent(&Layout::new(INSTALL_MOUNT), Install::Copy), mount_path)
}

/// The command of the init container of a view image that also contains the agent: copies both.
pub fn install_both(mount_path: &str) -> Vec<String> {
    let mut all = view_install(AGENT_IN_IMAGE, mount_path);
    all.push("--agent".to_owned());
    all
}

fn view_install(agent: &str, mount_path: &str) -> Vec<String> {
    argv([agent, "view", "install", "--mount-path", mount_path, "--destination", INSTALL_MOUNT])
}

/// Variables of the runner that count the pods of its index which the Job controller has replaced, from
/// the annotations that it gives each new pod (KEP-3850, `backoffLimitPerIndex`): those that count as
/// failures, and those that its failure policy ignores. Empty in a Job that does not count by index.
pub const REPLACED_VARIABLES: [(&str, &str); 2] = [
    ("FLUX_OPERATOR_REPLACED_FAILED", "batch.kubernetes.io/job-index-failure-count"),
    ("FLUX_OPERATOR_REPLACED_STOPPED", "batch.kubernetes.io/job-index-ignored-failure-count"),
];

/// Port of the pod at which PID 1 answers whether the pod is ready, and to the operator how many pods its queue needs.
pub const READY_PORT: u16 = 18049;
/// Path of the readiness request. With `?wait=SECONDS`, PID 1 waits so long for the pod to be ready.
pub const READY_PATH: &str = "/ready";

/// Port of the lead's pod at which the API of the instance is served unless `flux.rest.port` is another.
pub const REST_PORT: u16 = 18050;

/// Runs the pod, and answers readiness requests at [`READY_PORT`].
pub fn run(layout: &Layout, install: Install) -> Vec<String> {
    argv([&agent(layout, install), "run", "--probe-port", &READY_PORT.to_string()])
}

/// Runs sidecar `name` of the configuration.
pub fn run_sidecar(layout: &Layout, install: Install, name: &str) -> Vec<String> {
    argv([&agent(layout, install), "run", "--container", name])
}

/// The path of the agent before any agent of the pod has run.
fn agent(layout: &Layout, install: Install) -> String {
    match install {
        Install::Copy => layout.agent(),
        Install::Image => join(AGENT_MOUNT, Layout::AGENT_NAME),
    }
}

fn argv<const N: usize>(argv: [&str; N]) -> Vec<String> {
    argv.map(str::to_owned).into()
}
