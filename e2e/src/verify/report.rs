//! How each check went.

use crate::progress::Progress;
use crate::trial::evidence::EVIDENCE;
use crate::{interruption, programs};
use anyhow::{Result, ensure};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub(super) const ONLY_ALL: &str = "only `cargo verify --all` runs it, each night";

/// Takes checks, of which some run at the same time, and says at the end how each one went.
pub(super) struct Report<'run> {
    pub(super) progress: &'run Progress,
    outcomes: Mutex<Vec<Outcome>>,
}

struct Outcome {
    /// Its line in the summary.
    line: String,
    /// The name of the check, if it failed.
    failed: Option<String>,
}

impl<'run> Report<'run> {
    pub(super) fn new(progress: &'run Progress) -> Self {
        Self { progress, outcomes: Mutex::default() }
    }

    /// Runs a check.
    pub(super) fn check(&self, name: &str, work: impl FnOnce() -> Result<()>) {
        // Nothing is begun while an interruption ends what there is.
        interruption::await_end();
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed().as_secs_f64();
        let ended = if outcome.is_ok() { "passed" } else { "FAILED" };
        let failed = outcome.err().map(|error| {
            self.progress.say(&format!("{name}: {error:#}"));
            name.to_owned()
        });
        self.add(Outcome { line: format!("{ended}  {took:>6.1} s  {name}"), failed });
    }

    pub(super) fn run(&self, name: &str, usually: &str, command: &mut Command) {
        self.progress.say(&format!("{name} (usually {usually}) ..."));
        self.check(name, || programs::show(command));
    }

    /// That it would pass nobody knows.
    pub(super) fn not_run(&self, name: &str, reason: &str) {
        self.add(Outcome { line: format!("not run           {name}: {reason}"), failed: None });
    }

    fn add(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
    }

    /// Shows how each check went; fails where one has failed.
    pub(super) fn end(self) -> Result<()> {
        let outcomes = self.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        for outcome in &outcomes {
            self.progress.say(&outcome.line);
        }
        let failed = outcomes.into_iter().filter_map(|it| it.failed).collect::<Vec<_>>().join("; ");
        ensure!(
            failed.is_empty(),
            "failed: {failed}; what there is to see of tests on a cluster is in {EVIDENCE}"
        );
        Ok(())
    }
}
