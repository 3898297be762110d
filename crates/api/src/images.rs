//! The images of an operator.

use crate::cluster::View;

/// The operator image of this release.
pub const OPERATOR_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs:", env!("CARGO_PKG_VERSION"));

/// The image of this release that has the agent.
pub const AGENT_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs-agent:", env!("CARGO_PKG_VERSION"));

/// The published view image of another project, for amd64.
pub const VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble";

/// The same for arm64, which is published only for an older release of Ubuntu.
pub const ARM_VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:arm-jammy";

/// The image of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Image of the agent, with `/flux-agent` and the link `/flux` to it. It may also be the image of the view.
    pub agent: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub agent_pull_policy: String,
}

impl Images {
    /// True if the agent's image also has `view`, so that one container copies both and one volume has both.
    pub(crate) fn have(&self, view: &View) -> bool {
        view.enabled && view.container.image.as_ref() == Some(&self.agent)
    }
}
