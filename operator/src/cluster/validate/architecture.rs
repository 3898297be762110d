//! `spec.flux.arch`: the architecture of the images, hence of the nodes.

use super::text::non_empty;
use crate::crd;

/// Label that every node carries (well-known labels of Kubernetes).
pub(super) const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";

/// An architecture that view images are published for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// The node label's value: Go's name of the architecture.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

/// The architecture asked for, by any of its usual names; absent when none is, or no known one.
pub(super) fn architecture(flux: &crd::Flux) -> Option<Architecture> {
    match non_empty(flux.arch.as_ref())? {
        "amd64" | "x86_64" => Some(Architecture::Amd64),
        "arm" | "arm64" | "aarch64" => Some(Architecture::Arm64),
        _ => None,
    }
}
