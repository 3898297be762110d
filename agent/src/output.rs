//! The only place that prints.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "everything the agent says goes through here"
)]

use serde::Serialize;
use std::error::Error;

/// Says what the agent does, as lines `flux-agent: ...` on stderr, so that stdout belongs to the
/// user's command alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    quiet: bool,
    detailed: bool,
}

impl Log {
    /// A log that says only what went wrong when `quiet` is set (`logging.quiet`), and
    /// housekeeping only when `detailed` is (`logging.debug`).
    pub const fn new(quiet: bool, detailed: bool) -> Self {
        Self { quiet, detailed }
    }

    /// What happens, for somebody who looks for a fault.
    pub fn detail(self, line: &str) {
        if self.detailed {
            self.say(line);
        }
    }

    /// What happens.
    pub fn say(self, line: &str) {
        if !self.quiet {
            eprintln!("flux-agent: {line}");
        }
    }

    /// What went wrong: said also when quiet.
    pub fn error(self, line: &str) {
        eprintln!("flux-agent: error: {line}");
    }

    /// What went wrong although the run goes on: said also when quiet.
    pub fn warn(self, line: &str) {
        eprintln!("flux-agent: warning: {line}");
    }
}

/// `error` and its causes on one line, outermost first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A line on stdout: the answer of a subcommand.
pub fn answer(line: &str) {
    println!("{line}");
}

/// Text on stdout that ends its own lines.
pub fn answer_text(text: &str) {
    print!("{text}");
}

/// `value` on stdout as JSON.
pub fn answer_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{text}"),
        Err(error) => complain(&format!("write the answer as JSON: {error}")),
    }
}

/// A line on stderr without the agent's name, as the `FLUXTIME` lines are.
pub fn plain(line: &str) {
    eprintln!("{line}");
}

/// What went wrong in a subcommand.
pub fn complain(line: &str) {
    eprintln!("flux-agent: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer {
        #[source]
        source: std::io::Error,
    }

    #[test]
    fn causes_follow_their_effect() {
        let source = std::io::Error::other("inner");
        assert_eq!(chain(&Outer { source }), "outer: inner");
    }
}
