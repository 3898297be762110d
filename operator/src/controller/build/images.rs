//! The image of the agent.

use crate::cluster::View;

/// The image of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Image of the agent: holds `/flux-agent`, the link `/flux` to it, and nothing else unless it is the
    /// view's image as well.
    pub agent: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub agent_pull_policy: String,
}

impl Images {
    /// Whether `view` comes from the agent's image: then one container copies both, and one volume has both.
    pub(super) fn have(&self, view: &View) -> bool {
        view.enabled && view.container.image.as_ref() == Some(&self.agent)
    }
}
