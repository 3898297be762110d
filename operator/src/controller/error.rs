//! What can go wrong between a specification and its objects.

use super::build::BuildError;
use crate::curve::CurveError;
use kube::Resource;
use kube::core::Status;
use std::error::Error as _;
use std::time::Duration;

/// Why a MiniCluster could not be brought in line with its specification.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object could not be read.
    #[error("read {kind} {name:?}")]
    Read {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be written.
    #[error("apply {kind} {name:?}")]
    Apply {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The status could not be written.
    #[error("write the status of MiniCluster {name:?}")]
    WriteStatus {
        /// Name of the MiniCluster.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be deleted: the MiniCluster with `cleanup: true`, or its pod of `spec.services`.
    #[error("delete {kind} {name:?}")]
    Delete {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is an object of that name that is not ours: it is left alone.
    #[error("{kind} {name:?} exists and does not belong to this MiniCluster: rename one of them")]
    NameTaken {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A MiniCluster of the same name was deleted; its object is still there.
    #[error("{kind} {name:?} of a deleted MiniCluster of the same name is still there")]
    Predecessor {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An object was changed, or replaced by another, between the read and the write.
    #[error("{kind} {name:?} has changed since it was read: it is read again")]
    Conflict {
        /// Kind of the object.
        kind: String,
        /// Its name.
        name: String,
    },
    /// It took longer than it may.
    #[error(
        "gave up after {} seconds: the API server answers slowly or not at all; it is tried again",
        limit.as_secs()
    )]
    TimedOut {
        /// How long it may take.
        limit: Duration,
    },
    /// A defect of the operator: the code panicked. What it said is in the log alone, because it
    /// may quote anything.
    #[error(
        "the operator failed inside while reconciling this object, and goes on with the others: its log says where; please report it"
    )]
    Internal,
    /// The pods are to be a gang, and there is nothing that would place them as one.
    #[error(
        "spec.scheduling.gang is PodGroup, and the API server has no {lacking}: install scheduler-plugins or \
         Volcano, or set it to None; it is tried again"
    )]
    NoPodGroups {
        /// What the API server would have to have.
        lacking: String,
    },
    /// The objects could not be built.
    #[error("build the objects")]
    Build {
        /// Why.
        #[source]
        source: BuildError,
    },
    /// There is no CURVE certificate.
    #[error("make the CURVE certificate")]
    Curve {
        /// Why.
        #[source]
        source: CurveError,
    },
}

impl Error {
    /// The reason in conditions and Events and the label in metrics.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply { .. } => "ApplyFailed",
            Self::WriteStatus { .. } => "StatusWriteFailed",
            Self::Delete { .. } => "DeleteFailed",
            Self::NameTaken { .. } => "NameTaken",
            Self::Predecessor { .. } => "WaitingForDeletion",
            Self::Conflict { .. } => "Conflict",
            Self::TimedOut { .. } => "TimedOut",
            Self::Internal => "Internal",
            Self::NoPodGroups { .. } => "NoPodGroups",
            Self::Build { .. } => "BuildFailed",
            Self::Curve { .. } => "CertificateFailed",
        }
    }

    /// The object `name` has changed since it was read.
    pub(super) fn conflict<K: Resource<DynamicType = ()>>(name: String) -> Self {
        Self::Conflict { kind: K::kind(&()).into_owned(), name }
    }

    /// True when somebody else has the name.
    pub(super) const fn is_of_another_owner(&self) -> bool {
        matches!(self, Self::NameTaken { .. } | Self::Predecessor { .. })
    }

    /// The error and all its causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            // The server's own sentence: the library's text is that of a whole `Status`, twice.
            if let Some(status) = refusal(error) {
                return format!("{text}: {}", status.message);
            }
            let message = error.to_string();
            // Some libraries repeat the message of their cause in their own.
            if !text.ends_with(&message) {
                text = format!("{text}: {message}");
            }
            cause = error.source();
        }
        text
    }
}

/// An object of somebody else that has a name which is ours to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameConflict {
    /// Kind of the object.
    pub(super) kind: String,
    /// Its name.
    pub(super) name: String,
    /// True when it belongs to a MiniCluster of the same name that was deleted.
    pub(super) by_predecessor: bool,
}

impl From<NameConflict> for Error {
    fn from(NameConflict { kind, name, by_predecessor }: NameConflict) -> Self {
        if by_predecessor {
            Self::Predecessor { kind, name }
        } else {
            Self::NameTaken { kind, name }
        }
    }
}

/// What the API server answered, if that is what `error` is about.
fn refusal<'error>(error: &'error (dyn std::error::Error + 'static)) -> Option<&'error Status> {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match boxed.or_else(|| error.downcast_ref::<kube::Error>()) {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_servers_own_sentence() {
        let message = "Job.batch \"res2\" is invalid: must be less than or equal to cpu limit of 1";
        let status = Status::failure(message, "Invalid").with_code(422);
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let error = Error::Apply { kind: "Job".to_owned(), name: "res2".to_owned(), source };
        assert_eq!(error.chain(), format!("apply Job \"res2\": {message}"));
    }
}
