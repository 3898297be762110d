//! Why a step of a run failed, and the exit code that says so.

use crate::accounts::ensure::AccountError;
use crate::lead::wait::LeadError;
use crate::process::signals::Stop;
use flux_contract::{CertificateError, Exit};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("ended before the command ran")]
    Stopped(#[from] Stop),
    #[error("hook {hook} {end}; it ends the run, as logging.strict is not false")]
    Hook { hook: String, end: String },
    #[error(
        "hook {hook} was ended: it takes longer than the pod's grace period leaves it; raise \
         terminationGracePeriodSeconds in spec.pod.overlay"
    )]
    Late { hook: &'static str },
    #[error("prepare the account that Flux runs as")]
    Account(#[from] AccountError),
    #[error("could not {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read the CURVE certificate {}", path.display())]
    Certificate {
        path: PathBuf,
        /// What is wrong with it. Never its content.
        #[source]
        source: CertificateError,
    },
    #[error(
        "flux is not on the PATH {path:?}: flux.container.disable is set, so the image must bring its own"
    )]
    NoFlux { path: String },
    #[error("start {program:?}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{command:?} {end}: {output}")]
    Command { command: String, end: String, output: String },
    #[error("wait for the lead broker")]
    Lead(#[from] LeadError),
    #[error("{what} is missing: a mistake in the agent")]
    Order { what: &'static str },
}

impl StepError {
    /// The status of a child that was started has not come.
    pub(crate) fn no_status(_: io::Error) -> Self {
        Self::Order { what: "the status of a child" }
    }

    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Stopped(stop) => stop.exit(),
            Self::Late { .. } | Self::Hook { .. } => Exit::Hook,
            Self::NoFlux { .. } | Self::Start { .. } | Self::Command { .. } => Exit::View,
            Self::Account(_) | Self::File { .. } | Self::Certificate { .. } => Exit::Prepare,
            Self::Lead(_) => Exit::LeadUnreachable,
            Self::Order { .. } => Exit::Internal,
        }
    }
}

/// For `map_err`: names what was being done and to what.
pub(crate) fn failed(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> StepError {
    let path = path.into();
    move |source| StepError::File { doing, path, source }
}
