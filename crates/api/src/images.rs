//! The images that an operator uses unless it is given others.

/// The operator image of this release.
pub const OPERATOR_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs:", env!("CARGO_PKG_VERSION"));

/// The image of this release that has the agent.
pub const AGENT_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator-rs-agent:", env!("CARGO_PKG_VERSION"));

/// A published view image that is not of this project, for amd64.
pub const VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble";

/// The same for arm64: no tag is published for the other's release of Ubuntu.
pub const ARM_VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:arm-jammy";
