//! Why a step of a run failed, and the exit code that says so.

use crate::accounts::ensure::AccountError;
use crate::lead::wait::LeadError;
use crate::process::signals::Stop;
use flux_contract::{CertificateError, Exit};
use std::io;
use std::path::PathBuf;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// A signal came before the command ran.
    #[error("ended before the command ran")]
    Stopped {
        #[source]
        source: Stop,
    },
    /// A script of the user failed and `logging.strict` is set.
    #[error("hook {hook} {end}; it ends the run, as logging.strict is not false")]
    Hook {
        /// Field of the specification it comes from.
        hook: String,
        end: String,
    },
    /// The pod's grace period was over before a script of the user had ended.
    #[error(
        "hook {hook} was ended: it takes longer than the pod's grace period leaves it; raise \
         terminationGracePeriodSeconds in spec.pod.overlay"
    )]
    Late {
        /// Field of the specification it comes from.
        hook: &'static str,
    },
    /// There is no account for the broker.
    #[error("prepare the account that Flux runs as")]
    Account {
        #[source]
        source: AccountError,
    },
    /// Something with a file.
    #[error("could not {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// No directory takes a file.
    #[error("no directory takes {name}")]
    NoPlace { name: String },
    /// The mounted certificate is none.
    #[error("read the CURVE certificate {}", path.display())]
    Certificate {
        path: PathBuf,
        /// What is wrong with it. Never its content.
        #[source]
        source: CertificateError,
    },
    /// The view is disabled and the image has no Flux.
    #[error(
        "flux is not on the PATH {path:?}: flux.container.disable is set, so the image must bring its own"
    )]
    NoFlux {
        /// Where it was looked for.
        path: String,
    },
    /// A program of Flux could not be started.
    #[error("start {program:?}")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    /// A program of Flux failed.
    #[error("{command:?} {end}: {output}")]
    Command {
        /// The command line.
        command: String,
        end: String,
        output: String,
    },
    /// The lead did not answer in time.
    #[error("wait for the lead broker")]
    Lead {
        #[source]
        source: LeadError,
    },
    /// A step came before what it needs.
    #[error("{what} is missing: a mistake in the agent")]
    Order { what: &'static str },
}

impl StepError {
    /// The status of a child that was started has not come.
    pub(crate) fn no_status(_: io::Error) -> Self {
        Self::Order { what: "the status of a child" }
    }

    /// The exit code of the run.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Stopped { source } => source.exit(),
            Self::Late { .. } | Self::Hook { .. } => Exit::Hook,
            Self::NoFlux { .. } | Self::Start { .. } | Self::Command { .. } => Exit::View,
            Self::Account { .. }
            | Self::File { .. }
            | Self::NoPlace { .. }
            | Self::Certificate { .. } => Exit::Prepare,
            Self::Lead { .. } => Exit::LeadUnreachable,
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

impl From<Stop> for StepError {
    fn from(source: Stop) -> Self {
        Self::Stopped { source }
    }
}
