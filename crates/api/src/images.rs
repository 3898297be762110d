//! The default images of an operator.

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
