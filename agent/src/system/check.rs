//! The result of a check, and its form for people.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// No problem.
    Ok,
    /// Unusual, but perhaps intended.
    Warning,
    /// It cannot work.
    Failed,
    /// Not checked, because of an earlier failure, or because the check does not apply.
    Skipped,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The verdict.
    pub finding: Finding,
    /// The facts; after a failure, the cause.
    pub seen: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Cow<'static, str>>,
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject.
    pub name: &'static str,
    /// The result.
    #[serde(flatten)]
    pub found: Found,
}

impl Found {
    /// There is no problem.
    pub fn ok(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Ok, seen: seen.into(), remedy: None }
    }

    /// The check was skipped for the reason `seen`.
    pub fn skipped(seen: impl Into<String>) -> Self {
        Self { finding: Finding::Skipped, seen: seen.into(), remedy: None }
    }

    /// It is unusual, with a possible remedy.
    pub fn warning(seen: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { finding: Finding::Warning, seen: seen.into(), remedy: Some(remedy.into()) }
    }

    /// It cannot work, with the remedy.
    pub fn failed(seen: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { finding: Finding::Failed, seen: seen.into(), remedy: Some(remedy.into()) }
    }
}

/// Whether one of `checks` failed.
pub fn any_failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.found.finding == Finding::Failed)
}

/// The text of `checks` for people: a line for each, and its remedy below it.
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
