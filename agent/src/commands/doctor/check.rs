//! One thing that was checked, and what was found.

use serde::Serialize;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// As it should be.
    Ok,
    /// Unusual; it may be meant so.
    Warning,
    /// The pod cannot do its work.
    Failed,
    /// Not checked, because of an earlier failure or because it does not apply to this pod.
    Skipped,
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    /// How it is.
    pub finding: Finding,
    /// What was seen; the cause where it is a failure.
    pub seen: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
}

impl Found {
    pub(super) fn ok(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Ok, seen: seen.into(), remedy: None }
    }

    pub(super) fn skipped(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Skipped, seen: seen.into(), remedy: None }
    }

    pub(super) fn warning(seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { finding: Finding::Warning, seen: seen.into(), remedy: Some(remedy) }
    }

    pub(super) fn failed(seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { finding: Finding::Failed, seen: seen.into(), remedy: Some(remedy) }
    }
}
