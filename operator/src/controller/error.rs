//! The errors of a reconcile.

use flux_api::crd::Reason;
use kube::core::Status;
use std::error::Error as _;
use std::time::Duration;

/// Why a MiniCluster could not be brought in line with its specification.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request, or did not respond.
    #[error("{verb} {1}", verb = .0.message_and_reason().0)]
    Request(Verb, ObjectName, #[source] Box<kube::Error>),
    /// Another object has the name of an object; the operator leaves it alone.
    #[error(transparent)]
    NameConflict(#[from] NameConflict),
    /// An object was changed or replaced between the read and the write.
    #[error("{0} has changed since it was read; the next reconcile reads it again")]
    Conflict(ObjectName),
    /// The reconcile took longer than its deadline.
    #[error(
        "the reconcile was cancelled after {} seconds, because the API server responds slowly or not at all; it is tried again",
        .0.as_secs()
    )]
    TimedOut(Duration),
    /// A defect of the operator: the code panicked. Only the log has the panic message, because it may quote secrets.
    #[error(
        "the operator has a defect that stops the reconcile of this MiniCluster; its log shows where: please report it"
    )]
    Internal,
    /// No scheduler of the cluster can place the requested gang; the text is what is missing and how to get it.
    #[error("spec.scheduling.gang is {0}, or set it to None; it is tried again")]
    NoPodGroups(String),
    /// The objects could not be built.
    #[error("build the objects")]
    Build(#[source] anyhow::Error),
    /// The CURVE certificate could not be made.
    #[error("make the CURVE certificate")]
    Curve(#[source] anyhow::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Read,
    Apply,
    WriteStatus,
    Delete,
}

impl Verb {
    const fn message_and_reason(self) -> (&'static str, Reason) {
        match self {
            Self::Read => ("read", Reason::ReadFailed),
            Self::Apply => ("apply", Reason::ApplyFailed),
            Self::WriteStatus => ("write the status of", Reason::StatusWriteFailed),
            Self::Delete => ("delete", Reason::DeleteFailed),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?}")]
pub struct ObjectName {
    pub(super) kind: String,
    pub(super) name: String,
}

/// Another object has a name that the operator needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameConflict {
    #[error("{0} exists and does not belong to this MiniCluster: rename one of them")]
    Taken(ObjectName),
    #[error("{0} of a deleted MiniCluster of the same name still exists")]
    Predecessor(ObjectName),
    /// The Service of `network.headlessName` exists, and MiniClusters do not share it.
    #[error(
        "spec.network.headlessName: the Service {name:?} exists, belongs to {owner}, and is not one that MiniClusters share: give another name, or delete that Service"
    )]
    Headless { name: String, owner: String },
}

impl NameConflict {
    pub(super) fn is_job(&self) -> bool {
        match self {
            Self::Taken(object) | Self::Predecessor(object) => object.kind == "Job",
            Self::Headless { .. } => false,
        }
    }

    pub(super) fn into_name(self) -> String {
        match self {
            Self::Taken(object) | Self::Predecessor(object) => object.name,
            Self::Headless { name, .. } => name,
        }
    }
}

impl Error {
    /// Makes an error of a failed request. A write conflict is not an [`Error::Request`].
    pub(super) fn of(
        verb: Verb,
        kind: &str,
        name: &str,
    ) -> impl FnOnce(kube::Error) -> Self + use<> {
        let object = ObjectName { kind: kind.to_owned(), name: name.to_owned() };
        move |source| {
            if matches!(&source, kube::Error::Api(status) if status.is_conflict()) {
                return Self::Conflict(object);
            }
            Self::Request(verb, object, Box::new(source))
        }
    }

    /// The reason in conditions and Events and the label in metrics.
    pub const fn category(&self) -> &'static str {
        let reason = match self {
            Self::Request(verb, ..) => verb.message_and_reason().1,
            Self::NameConflict(NameConflict::Taken(_) | NameConflict::Headless { .. }) => {
                Reason::NameTaken
            }
            Self::NameConflict(NameConflict::Predecessor(_)) => Reason::WaitingForDeletion,
            Self::Conflict(_) => Reason::Conflict,
            Self::TimedOut(_) => Reason::TimedOut,
            Self::Internal => Reason::Internal,
            Self::NoPodGroups(_) => Reason::NoPodGroups,
            Self::Build(_) => Reason::BuildFailed,
            Self::Curve(_) => Reason::CertificateFailed,
        };
        reason.as_str()
    }

    /// The error and all its causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            // Use the API server's message: the library prints the whole `Status`, twice.
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

/// The status that the API server returned, if it is the cause of `error`.
fn refusal<'error>(error: &'error (dyn std::error::Error + 'static)) -> Option<&'error Status> {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(AsRef::as_ref);
    match boxed.or_else(|| error.downcast_ref::<kube::Error>()) {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => Some(status),
        _ => None,
    }
}
