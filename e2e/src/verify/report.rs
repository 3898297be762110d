//! How each check went.

use super::changes::{Passed, Paths};
use crate::product::target;
use crate::progress;
use crate::trial::evidence::EVIDENCE;
use crate::{interruption, programs};
use anyhow::{Context as _, Result, ensure};
use fs_err as fs;
use serde::Serialize;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub(super) const ONLY_ALL: &str = "only `cargo verify --all` runs it, each night";

/// The file below `target` with the time that each check took.
const TIMES: &str = "verify-times.json";
/// How many of the slowest checks are shown.
const SLOWEST: usize = 5;

/// Runs checks, some at the same time, and shows at the end how each one went.
pub(super) struct Report {
    passed: Passed,
    begun: Instant,
    outcomes: Mutex<Vec<Outcome>>,
}

#[derive(Serialize)]
struct Outcome {
    check: String,
    seconds: f64,
    end: End,
}

#[derive(PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum End {
    Passed,
    Failed,
    /// Neither passed nor failed, for this reason.
    NotRun(String),
}

impl Outcome {
    fn line(&self) -> String {
        let Self { check, seconds, end } = self;
        match end {
            End::Passed => format!("passed  {seconds:>6.1} s  {check}"),
            End::Failed => format!("FAILED  {seconds:>6.1} s  {check}"),
            End::NotRun(reason) => format!("not run           {check}: {reason}"),
        }
    }
}

impl Report {
    pub(super) fn new(passed: Passed) -> Self {
        Self { passed, begun: Instant::now(), outcomes: Mutex::default() }
    }

    pub(super) fn check(&self, name: &str, work: impl FnOnce() -> Result<()>) {
        // No check begins while an interruption ends the clusters.
        interruption::await_end();
        let begun = Instant::now();
        let worked = work();
        let seconds = begun.elapsed().as_secs_f64();
        let end = if worked.is_ok() { End::Passed } else { End::Failed };
        if let Err(error) = worked {
            progress::log(&format!("{name}: {error:#}"));
        }
        self.add(Outcome { check: name.to_owned(), seconds, end });
    }

    /// Runs a check if one of the files that it reads has changed.
    pub(super) fn check_changes(&self, name: &str, read: Paths, work: impl FnOnce() -> Result<()>) {
        if !self.leaves_out(name, read) {
            self.check(name, work);
        }
    }

    /// Whether none of the files that a check reads has changed; if so, notes the check as not run.
    pub(super) fn leaves_out(&self, name: &str, read: Paths) -> bool {
        let leaves_out = self.passed.covers(read);
        if leaves_out {
            self.not_run(name, "its files are those with which it passed here; `--all` runs it");
        }
        leaves_out
    }

    pub(super) fn run(&self, name: &str, usually: &str, command: &mut Command) {
        progress::log(&format!("{name} (usually {usually}) ..."));
        self.check(name, || programs::show(command));
    }

    /// Notes that a check was not run.
    pub(super) fn not_run(&self, name: &str, reason: &str) {
        let end = End::NotRun(reason.to_owned());
        self.add(Outcome { check: name.to_owned(), seconds: 0.0, end });
    }

    fn add(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
    }

    /// Shows how each check went and which took longest, and writes their times to a file; fails where one has failed.
    pub(super) fn end(self) -> Result<()> {
        let whole = self.begun.elapsed().as_secs();
        let mut outcomes = self.outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let times = serde_json::to_string_pretty(&outcomes).context("writing the times")?;
        fs::write(target()?.join(TIMES), times + "\n")?;
        for outcome in &outcomes {
            progress::log(&outcome.line());
        }
        outcomes.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        progress::log(&format!("{whole} s in all, some checks beside others; the slowest:"));
        for outcome in outcomes.iter().take(SLOWEST) {
            progress::log(&outcome.line());
        }
        let failed = outcomes.into_iter().filter(|it| it.end == End::Failed);
        let failed = failed.map(|it| it.check).collect::<Vec<_>>().join("; ");
        ensure!(
            failed.is_empty(),
            "failed: {failed}; what there is to see of tests on a cluster is in {EVIDENCE}"
        );
        Ok(())
    }
}
