//! How each check went.

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::{Result, ensure};

use crate::{interruption, programs, progress::Progress, trial::evidence::EVIDENCE};

/// Why a check of `--all` is not run.
pub(super) const ONLY_ALL: &str = "only `cargo verify --all` runs it, each night";

/// Takes checks, of which some run at the same time, and says at the end how each one went.
pub(super) struct Report<'run> {
    pub(super) progress: &'run Progress,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default)]
struct Outcomes {
    /// A line of the summary for each check.
    lines: Vec<String>,
    /// The names of those that failed.
    failed: Vec<String>,
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
        self.outcomes().lines.push(format!("{ended}  {took:>6.1} s  {name}"));
        if let Err(error) = outcome {
            self.progress.say(&format!("{name}: {error:#}"));
            self.outcomes().failed.push(name.to_owned());
        }
    }

    /// Runs a check that is one command, which shows its output itself.
    pub(super) fn run(&self, name: &str, usually: &str, command: &mut Command) {
        self.progress.say(&format!("{name} (usually {usually}) ..."));
        self.check(name, || programs::show(command));
    }

    /// That it would pass nobody knows.
    pub(super) fn not_run(&self, name: &str, reason: &str) {
        self.outcomes().lines.push(format!("not run           {name}: {reason}"));
    }

    /// Shows how each check went; fails where one has failed.
    pub(super) fn end(&self) -> Result<()> {
        let outcomes = self.outcomes();
        outcomes.lines.iter().for_each(|line| self.progress.say(line));
        let failed = outcomes.failed.join("; ");
        ensure!(
            failed.is_empty(),
            "failed: {failed}; what there is to see of tests on a cluster is in {EVIDENCE}"
        );
        Ok(())
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
