//! One thing that was checked, what was found, and how that is shown to people.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;

/// How what was checked is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// As it should be.
    Ok,
    /// Unusual; it may be meant so.
    Warning,
    /// What was checked cannot do its work.
    Failed,
    /// Not checked, because of an earlier failure or because it does not apply here.
    Skipped,
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// How it is.
    pub finding: Finding,
    /// What was seen; the cause where it is a failure.
    pub seen: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Cow<'static, str>>,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
}

impl Found {
    /// It is as it should be.
    pub fn ok(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Ok, seen: seen.into(), remedy: None }
    }

    /// It was not checked, for the reason `seen`.
    pub fn skipped(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Skipped, seen: seen.into(), remedy: None }
    }

    /// It is unusual, and `remedy` says what may be done.
    pub fn warning(seen: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { finding: Finding::Warning, seen: seen.into(), remedy: Some(remedy.into()) }
    }

    /// It cannot do its work, and `remedy` says what to do.
    pub fn failed(seen: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { finding: Finding::Failed, seen: seen.into(), remedy: Some(remedy.into()) }
    }
}

/// Whether one of `checks` failed.
pub fn any_failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.found.finding == Finding::Failed)
}

/// `checks` for people: a line each, and the remedy under what it is for.
pub fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, found: Found { finding, seen, remedy } } in checks {
        let finding = match finding {
            Finding::Ok => "ok",
            Finding::Warning => "warning",
            Finding::Failed => "FAILED",
            Finding::Skipped => "skipped",
        };
        let _ = writeln!(text, "{finding:<8} {name:<14} {seen}");
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:<23} remedy: {remedy}", "");
        }
    }
    text
}
