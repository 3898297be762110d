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

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it is.
    pub finding: Finding,
    /// What was seen; the cause where it is a failure.
    pub seen: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

impl Check {
    pub(super) fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, finding: Finding::Ok, seen: seen.into(), remedy: None }
    }

    pub(super) fn skipped(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, finding: Finding::Skipped, seen: seen.into(), remedy: None }
    }

    pub(super) fn warning(
        name: &'static str,
        seen: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self { name, finding: Finding::Warning, seen: seen.into(), remedy: Some(remedy) }
    }

    pub(super) fn failed(
        name: &'static str,
        seen: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self { name, finding: Finding::Failed, seen: seen.into(), remedy: Some(remedy) }
    }
}
