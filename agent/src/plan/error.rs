//! Why there is no plan, and the exit code that says so.

use flux_contract::Exit;
use std::path::PathBuf;

/// Why there is no plan: configuration and pod do not go together.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Flux could not find out this pod's rank.
    #[error(
        "host name {hostname:?} of this pod is not among the hosts {hosts} of the Flux instance"
    )]
    UnknownHost {
        /// The pod's host name.
        hostname: String,
        /// The configured hosts.
        hosts: String,
    },
    /// The pod would be the lead of an instance whose lead is elsewhere.
    #[error(
        "host name {hostname:?} of this pod is that of the lead broker, which is elsewhere ({lead}): give this MiniCluster another name"
    )]
    LeadElsewhere {
        /// The pod's host name.
        hostname: String,
        /// Where the lead is.
        lead: String,
    },
    /// The view is not what it should be.
    #[error("the Flux view has no executable {}: is the view image one? One with links to other places than /opt/software needs flux.container.install: Copy", path.display())]
    NoFlux {
        /// Where it should be.
        path: PathBuf,
    },
    /// A hook needs a shell and `logging.strict` is set.
    #[error("hook {hook} needs a shell: neither the image nor the view has one")]
    NoShell {
        /// The hook.
        hook: &'static str,
    },
    /// The command of a lead that is lost may have run.
    #[error(
        "an earlier pod of the lead was lost, and its command may have run: it is not run a second time, unless spec.backoffLimit allows that"
    )]
    LeadLost,
}

impl PlanError {
    /// The exit code that says so.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::UnknownHost { .. } | Self::LeadElsewhere { .. } => Exit::Config,
            Self::NoFlux { .. } => Exit::View,
            Self::NoShell { .. } => Exit::Hook,
            Self::LeadLost => Exit::LeadLost,
        }
    }
}
