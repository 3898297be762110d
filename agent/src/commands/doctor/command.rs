//! `flux-agent doctor`: checks what a pod needs, one thing after the other, and says for each that
//! is wrong what it means and what to do about it.

use crate::commands::arguments::{Format, PodArguments};
use crate::commands::doctor::check::{Check, Finding, Found};
use crate::commands::doctor::checks;
use crate::commands::failure::{Done, NO};
use std::fmt::Write as _;

/// Checks everything and prints it; ends with 1 if a check failed.
pub(crate) async fn run(arguments: &PodArguments, format: Format) -> Done {
    let checks = checks::all(arguments).await;
    format.print(&checks, || text(&checks));
    if checks.iter().any(|check| check.found.finding == Finding::Failed) { Err(NO) } else { Ok(()) }
}

fn text(checks: &[Check]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_under_what_it_is_for() {
        let checks = [
            Check { name: "view", found: Found::ok("/mnt/flux/view") },
            Check {
                name: "lead",
                found: Found::failed("connection refused", "look at the lead's log"),
            },
        ];
        let expected = "ok       view           /mnt/flux/view\n\
                        FAILED   lead           connection refused\n\
                        \x20                       remedy: look at the lead's log\n";
        assert_eq!(text(&checks), expected);
    }
}
