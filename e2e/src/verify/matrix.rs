//! `matrix`: tests on a cluster of each version of Kubernetes, one after the other, and a table of how they went.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{TRIALS_AT_ONCE, alone};
use crate::{
    cache,
    cli::use_cluster,
    cluster::Target,
    interruption::{self, Scope},
    kubernetes::{DownAtEnd, Kubernetes, KubernetesVersion, Options},
    not_run,
    product::{cargo, checkout},
    programs,
    progress::{self, Progress},
    trial::evidence::EVIDENCE,
};

/// Tests that show what a version of Kubernetes may change: names, or parts of them. A start, jobs, another
/// size, how agent and view come into the pods, runs that end in every way.
const CHOSEN: [&str; 6] = [
    "examples::hello_world",
    "examples::interactive",
    "examples::batch",
    "examples::elasticity",
    "install::",
    "runs::",
];

/// How the tests went on one version.
#[derive(Debug)]
struct Row {
    version: KubernetesVersion,
    /// The node's container runtime, as it says it; empty where no node came up.
    runtime: String,
    /// Why there is no count where there is none.
    counts: Result<Counts, String>,
    /// What tests said that they did not do, and why.
    not_run: Vec<String>,
    took: Duration,
}

/// What the tests themselves count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    failed: u32,
}

/// Runs tests on a cluster of each of `versions`, of all where none is given: those that show most of
/// Kubernetes, or `all`.
pub fn matrix(versions: &[KubernetesVersion], all: bool, progress: &Progress) -> Result<()> {
    let versions = chosen(versions);
    let options: Vec<_> =
        versions.iter().map(|version| Options::of_version(*version)).collect::<Result<_>>()?;
    interruption::guard_clusters(options.clone(), Scope::Target)?;
    let _alone = alone(progress)?;
    cache::remove_tree(&checkout()?.join(EVIDENCE))?;
    let tests: &[&str] = if all { &[] } else { &CHOSEN };
    run_on(options, tests, progress)
}

/// Runs those that show most of Kubernetes on every version, for a run that holds the checkout already.
pub(super) fn on_every_version(progress: &Progress) -> Result<()> {
    let versions = KubernetesVersion::all().iter();
    let options = versions.map(|version| Options::of_version(*version));
    run_on(options.collect::<Result<_>>()?, &CHOSEN, progress)
}

fn run_on(clusters: Vec<Options>, tests: &[&str], progress: &Progress) -> Result<()> {
    let mut rows = Vec::new();
    for options in clusters {
        rows.push(row(options, tests, progress));
        // Nothing is begun while an interruption ends what there is.
        interruption::await_end();
    }
    progress::print(&table(&rows));
    let failed: Vec<_> =
        rows.iter().filter(|row| !row.is_good()).map(|row| row.version.to_string()).collect();
    ensure!(failed.is_empty(), "failed on {}; see {EVIDENCE}", failed.join(", "));
    Ok(())
}

/// Each once, the oldest first; all where none is given.
fn chosen(given: &[KubernetesVersion]) -> Vec<KubernetesVersion> {
    let all = KubernetesVersion::all().iter().copied();
    all.filter(|version| given.is_empty() || given.contains(version)).collect()
}

fn row(options: Options, tests: &[&str], progress: &Progress) -> Row {
    let (version, begun) = (options.version, Instant::now());
    let mut row = Row {
        version,
        runtime: String::new(),
        counts: Err(String::new()),
        not_run: Vec::new(),
        took: Duration::ZERO,
    };
    progress.say(&format!("Kubernetes {} ...", version.full()));
    let counts = run(&mut row, options, tests, progress);
    row.counts = counts.map_err(|error| format!("{error:#}"));
    row.took = begun.elapsed();
    row
}

fn run(row: &mut Row, options: Options, tests: &[&str], progress: &Progress) -> Result<Counts> {
    let _down = DownAtEnd(options.clone());
    let cluster = Kubernetes::up(&options, progress)?;
    let template = "-ojsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}";
    let said = programs::run(&mut cluster.kubectl(["get", "nodes", template]))?;
    row.runtime = String::from_utf8_lossy(&said.stdout).replace("://", " ");
    let notes = tempfile::NamedTempFile::new().context("making a file for what does not run")?;
    let mut command = cargo(&["test", "--package", "e2e", "--test", "cluster", "--"])?;
    let threads = format!("--test-threads={TRIALS_AT_ONCE}");
    command.args(["--ignored", &threads]).args(tests);
    use_cluster(&mut command, &Target::Own(options));
    let (variable, path) = not_run::environment(notes.path());
    let shown = programs::show_and_keep(command.env(variable, path))?;
    row.not_run = not_run::noted(notes.path());
    let counts = Counts::read(&shown.text);
    let counts = counts.context("the tests were not run to their end")?;
    if shown.success == (counts.failed > 0) {
        bail!("the tests count {} failures, and ended otherwise", counts.failed);
    }
    ensure!(counts.passed + counts.failed > 0, "no test was run");
    Ok(counts)
}

impl Counts {
    /// From the last line of a run, as `test result: ok. 29 passed; 1 failed; 0 ignored; ...`.
    fn read(text: &str) -> Option<Self> {
        let line = text.lines().rev().find_map(|line| line.strip_prefix("test result: "))?;
        let (_, numbers) = line.split_once(". ")?;
        let number = |name: &str| {
            let named = numbers.split("; ").find_map(|part| part.strip_suffix(name));
            named?.trim().parse().ok()
        };
        Some(Self { passed: number("passed")?, failed: number("failed")? })
    }
}

impl Row {
    fn is_good(&self) -> bool {
        matches!(self.counts, Ok(Counts { failed: 0, .. }))
    }
}

/// A line for each version, and one for all that went otherwise than the numbers say.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<12}{:<26}{:>8}{:>8}{:>9}{:>10}\n",
        "Kubernetes", "runtime", "passed", "FAILED", "not run", "seconds"
    );
    for Row { version, runtime, counts, not_run, took } in rows {
        let number = |number: fn(&Counts) -> u32| {
            counts.as_ref().map_or_else(|_| "-".to_owned(), |counts| number(counts).to_string())
        };
        let (passed, failed) = (number(|it| it.passed), number(|it| it.failed));
        let full = version.full();
        let (skipped, took) = (not_run.len(), took.as_secs());
        // Writing to a text cannot fail.
        let _ =
            writeln!(text, "{full:<12}{runtime:<26}{passed:>8}{failed:>8}{skipped:>9}{took:>10}");
    }
    for Row { version, counts, not_run, .. } in rows {
        let error = counts.as_ref().err().map(|error| format!("FAILED: {error}"));
        let skipped = not_run.iter().map(|reason| format!("not run, though counted: {reason}"));
        for line in error.into_iter().chain(skipped) {
            let _ = writeln!(text, "{version}: {line}");
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_tested_once_and_all_where_none_is_given() {
        let all = KubernetesVersion::all();
        assert_eq!(chosen(&[]), all);
        let newest = KubernetesVersion::default();
        assert_eq!(chosen(&[newest, all[0], newest]), [all[0], newest]);
    }

    #[test]
    fn counts_are_those_of_the_last_line() {
        let counts = |text: &str| Counts::read(text).map(|it| (it.passed, it.failed));
        let good = "test a ... ok\n\ntest result: ok. 29 passed; 0 failed; 1 ignored; 0 measured; 56 filtered out; finished in 3.21s\n\n";
        assert_eq!(counts(good), Some((29, 0)));
        let bad = "test result: FAILED. 2 passed; 13 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(counts(bad), Some((2, 13)));
        for text in ["", "test a ... ok", "test result: ok. many passed; 0 failed"] {
            assert_eq!(counts(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_version_and_what_is_behind_it() {
        let row = |version, runtime: &str, counts, not_run: &[&str]| Row {
            version,
            runtime: runtime.to_owned(),
            counts,
            not_run: not_run.iter().map(ToString::to_string).collect(),
            took: Duration::from_millis(61_500),
        };
        let (good, bad) = (Counts { passed: 30, failed: 0 }, Counts { passed: 28, failed: 2 });
        let runtime = "containerd 2.3.7+unknown";
        let rows = [
            row(KubernetesVersion::V1_33, runtime, Ok(good), &["example a: no Flux"]),
            row(KubernetesVersion::V1_36, runtime, Ok(bad), &[]),
            row(KubernetesVersion::V1_36, "", Err("building it: no Go".to_owned()), &[]),
        ];
        insta::assert_snapshot!(table(&rows), @r"
        Kubernetes  runtime                     passed  FAILED  not run   seconds
        v1.33.13    containerd 2.3.7+unknown        30       0        1        61
        v1.36.3     containerd 2.3.7+unknown        28       2        0        61
        v1.36.3                                      -       -        0        61
        1.33: not run, though counted: example a: no Flux
        1.36: FAILED: building it: no Go
        ");
        assert_eq!(rows.each_ref().map(Row::is_good), [true, false, false]);
    }
}
