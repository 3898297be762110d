//! `flux-agent doctor`: checks what a pod needs, one thing after the other, and says for each that
//! is wrong what it means and what to do about it.

mod checks;

use crate::cli::{Format, PodArguments};
use crate::output::{answer_json, answer_text};
use serde::Serialize;
use std::fmt::Write as _;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
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
pub struct Check {
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
    fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, finding: Finding::Ok, seen: seen.into(), remedy: None }
    }

    fn skipped(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, finding: Finding::Skipped, seen: seen.into(), remedy: None }
    }

    fn warning(name: &'static str, seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, finding: Finding::Warning, seen: seen.into(), remedy: Some(remedy) }
    }

    fn failed(name: &'static str, seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { name, finding: Finding::Failed, seen: seen.into(), remedy: Some(remedy) }
    }
}

/// Checks everything and prints it; ends with 1 if a check failed.
pub async fn doctor(arguments: &PodArguments, format: Format) -> u8 {
    let checks = checks::all(arguments).await;
    match format {
        Format::Text => answer_text(&text(&checks)),
        Format::Json => answer_json(&checks),
    }
    u8::from(checks.iter().any(|check| check.finding == Finding::Failed))
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, finding, seen, remedy } in checks {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_under_what_it_is_for() {
        let checks = [
            Check::ok("view", "/mnt/flux/view"),
            Check::failed("lead", "connection refused", "look at the lead's log"),
        ];
        let expected = "ok       view           /mnt/flux/view\n\
                        FAILED   lead           connection refused\n\
                        \x20                       remedy: look at the lead's log\n";
        assert_eq!(text(&checks), expected);
    }
}
