//! Where the agent is found that runs this pod, and how patiently it is asked.

use crate::commands::arguments::PodArguments;
use crate::plan::config::read_config;
use crate::system::root::Root;
use flux_contract::{Layout, PRIVATE_MOUNT};
use std::path::PathBuf;
use std::time::Duration;

/// How long the agent may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// How often a state is asked for while waiting for it.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// The paths below the shared volume. The configuration says where that is; where it cannot be read,
/// this program's own place in it does.
pub(super) fn layout(arguments: &PodArguments) -> Layout {
    let root = Root::new(&arguments.root);
    let own_mount = || {
        let own = std::env::current_exe().ok()?;
        let mount = own.parent()?.parent()?;
        let layout = Layout::new(mount).with_private(PRIVATE_MOUNT);
        (layout.agent() == own).then_some(layout)
    };
    let configured = read_config(&root.at(&arguments.config)).map(|config| config.layout);
    configured.ok().or_else(own_mount).unwrap_or_default()
}

/// The socket of the agent that runs this pod.
pub(super) fn agent_socket(arguments: &PodArguments) -> PathBuf {
    Root::new(&arguments.root).at(layout(arguments).agent_socket())
}
