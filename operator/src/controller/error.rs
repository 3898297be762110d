//! What can go wrong between a specification and its objects.

use kube::core::Status;
use std::error::Error as _;
use std::time::Duration;

/// Why a MiniCluster could not be brought in line with its specification.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request, or did not answer it.
    #[error("{verb} {1}", verb = .0.words().0)]
    Request(Verb, ObjectName, #[source] Box<kube::Error>),
    /// The name of an object is not free: what has it is left alone.
    #[error(transparent)]
    NameConflict(#[from] NameConflict),
    /// An object was changed, or replaced by another, between the read and the write.
    #[error("{0} has changed since it was read: it is read again")]
    Conflict(ObjectName),
    /// It took longer than it may.
    #[error(
        "gave up after {} seconds: the API server answers slowly or not at all; it is tried again",
        .0.as_secs()
    )]
    TimedOut(Duration),
    /// A defect of the operator: the code panicked. What it said is in the log alone, because it
    /// may quote anything.
    #[error(
        "the operator failed inside while reconciling this object, and goes on with the others: its log says where; please report it"
    )]
    Internal,
    /// The pods are to be a gang, and there is nothing that would place them as one: what is asked for, what is
    /// lacking, and how it is to be had.
    #[error("spec.scheduling.gang is {0}, or set it to None; it is tried again")]
    NoPodGroups(String),
    /// The objects could not be built.
    #[error("build the objects")]
    Build(#[source] anyhow::Error),
    /// There is no CURVE certificate.
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
    /// How an error begins, and its category.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => ("read", "ReadFailed"),
            Self::Apply => ("apply", "ApplyFailed"),
            Self::WriteStatus => ("write the status of", "StatusWriteFailed"),
            Self::Delete => ("delete", "DeleteFailed"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?}")]
pub struct ObjectName {
    pub(super) kind: String,
    pub(super) name: String,
}

/// An object of somebody else that has a name which is ours to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameConflict {
    #[error("{0} exists and does not belong to this MiniCluster: rename one of them")]
    Taken(ObjectName),
    #[error("{0} of a deleted MiniCluster of the same name is still there")]
    Predecessor(ObjectName),
    /// The Service that `network.headlessName` names is not one that MiniClusters share.
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
    /// What an answer to the request `verb` comes to: that somebody else has written is no failure.
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
        match self {
            Self::Request(verb, ..) => verb.words().1,
            Self::NameConflict(NameConflict::Taken(_) | NameConflict::Headless { .. }) => {
                "NameTaken"
            }
            Self::NameConflict(NameConflict::Predecessor(_)) => "WaitingForDeletion",
            Self::Conflict(_) => "Conflict",
            Self::TimedOut(_) => "TimedOut",
            Self::Internal => "Internal",
            Self::NoPodGroups(_) => "NoPodGroups",
            Self::Build(_) => "BuildFailed",
            Self::Curve(_) => "CertificateFailed",
        }
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
    fn a_refusal_has_the_message_of_the_api_server() {
        let message = "Job.batch \"res2\" is invalid: must be less than or equal to cpu limit of 1";
        let status = Status::failure(message, "Invalid").with_code(422);
        let refused = Error::of(Verb::Apply, "Job", "res2");
        let error = refused(kube::Error::Api(Box::new(status)));
        assert_eq!(error.chain(), format!("apply Job \"res2\": {message}"));
    }
}
