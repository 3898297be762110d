//! `verify`: every check and test of the project, in the order in which a fault is cheapest to find.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use walkdir::WalkDir;

use crate::{
    cache::{Cache, Key},
    cli::environment,
    cluster::Target,
    kubernetes::Kubernetes,
    product::{binaries, cargo, checkout},
    progress::Progress,
};

/// What is to be verified, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster of the tests that need one.
    pub target: Target,
    /// Only the cluster tests whose names contain this text run.
    pub filter: Option<String>,
    /// The cluster stays up at the end.
    pub keep: bool,
}

/// One check: its name, and the command that makes it.
struct Check {
    name: &'static str,
    usually: &'static str,
    command: Command,
}

/// Version of `cargo-deny` that checks the dependencies; kept in the cache once built.
const CARGO_DENY: &str = "0.20.2";

/// How many examples run at the same time.
const TRIALS_AT_ONCE: u8 = 3;

/// Lines of Rust that the stand-in for Flux may have, its tests included: nobody wants to keep more
/// true for something that proves nothing about Flux.
const STAND_IN_LINE_LIMIT: usize = 6000;

/// Runs every check, shows the output of each as it comes, and says at the end how each one went.
///
/// # Errors
/// When a check fails: names every one that did.
pub fn verify(options: &Options, progress: &Progress) -> Result<()> {
    let mut outcomes = Vec::new();
    for check in checks()? {
        outcomes.push(run(check, progress)?);
    }
    outcomes.push(timed("the agent is static and free of Kubernetes", progress, || {
        let built = binaries::build(progress)?;
        binaries::check_static(&built)?;
        binaries::check_agent_dependencies()
    }));
    outcomes.push(timed("the stand-in for Flux is small", progress, check_stand_in_size));
    outcomes.push(timed("dependencies: licences, bans, sources", progress, || deny(progress)));
    match obstacle(&options.target) {
        None => outcomes.extend(on_the_cluster(options, progress)?),
        Some(reason) => progress.say(&format!("cluster tests not run: {reason}")),
    }
    summary(&outcomes, progress)
}

/// The checks that are one cargo command each.
fn checks() -> Result<Vec<Check>> {
    let mut documentation =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"])?;
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    Ok(vec![
        Check {
            name: "format",
            usually: "a second",
            command: cargo(&["fmt", "--all", "--", "--check"])?,
        },
        Check { name: "lints", usually: "4 min cold", command: cargo(&lints)? },
        Check {
            name: "unit, snapshot and property tests",
            usually: "5 min cold",
            command: cargo(&["test", "--workspace", "--no-fail-fast"])?,
        },
        Check { name: "documentation", usually: "1 min cold", command: documentation },
    ])
}

/// What keeps the cluster tests from running, if anything does.
fn obstacle(target: &Target) -> Option<&'static str> {
    let own = matches!(target, Target::Own(_));
    (own && !nix::unistd::geteuid().is_root()).then_some(
        "starting a cluster on this machine needs root; run as root, or name another cluster by \
         --kubeconfig FILE --load-command COMMAND",
    )
}

fn on_the_cluster(options: &Options, progress: &Progress) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    if matches!(options.target, Target::Own(_)) && options.filter.is_none() {
        for (test, name) in
            [("node", "tests of the node"), ("network", "IPv6 and another cluster domain")]
        {
            outcomes.push(run(ignored_tests(test, name, 1, options)?, progress)?);
        }
    }
    for (test, name) in [
        ("cluster", "tests on a cluster"),
        ("go_bugs", "faults of the Go operator, on a cluster"),
        ("upgrade", "another release of the operator, on a cluster"),
        ("examples", "examples on a cluster"),
    ] {
        outcomes.push(run(ignored_tests(test, name, TRIALS_AT_ONCE, options)?, progress)?);
    }
    if let Target::Own(own) = &options.target
        && !options.keep
    {
        progress.step("the cluster is down", || Kubernetes::down(own))?;
    }
    Ok(outcomes)
}

fn ignored_tests(test: &str, name: &'static str, at_once: u8, options: &Options) -> Result<Check> {
    let mut command = cargo(&["test", "--package", "e2e", "--test", test, "--"])?;
    let threads = format!("--test-threads={at_once}");
    command.args(["--ignored", &threads]).args(&options.filter);
    command.envs(environment(&options.target));
    Ok(Check { name, usually: "5 min, 15 min cold", command })
}

/// How one check went.
struct Outcome {
    name: &'static str,
    passed: bool,
    took: Duration,
}

fn run(mut check: Check, progress: &Progress) -> Result<Outcome> {
    progress.say(&format!("{} (usually {}) ...", check.name, check.usually));
    let begun = Instant::now();
    let status =
        check.command.status().with_context(|| format!("starting cargo for {}", check.name))?;
    Ok(Outcome { name: check.name, passed: status.success(), took: begun.elapsed() })
}

fn timed(name: &'static str, progress: &Progress, work: impl FnOnce() -> Result<()>) -> Outcome {
    let begun = Instant::now();
    let result = work();
    if let Err(error) = &result {
        progress.say(&format!("{name}: {error:#}"));
    }
    Outcome { name, passed: result.is_ok(), took: begun.elapsed() }
}

fn summary(outcomes: &[Outcome], progress: &Progress) -> Result<()> {
    for outcome in outcomes {
        let word = if outcome.passed { "passed" } else { "FAILED" };
        progress.say(&format!("{word} {:>6.1} s  {}", outcome.took.as_secs_f64(), outcome.name));
    }
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("failed: {}", failed.join("; "))
}

fn check_stand_in_size() -> Result<()> {
    let mut lines = 0;
    for entry in WalkDir::new(checkout()?.join("e2e/stand-in")) {
        let entry = entry.context("looking for the files of the stand-in")?;
        if entry.path().extension().is_some_and(|suffix| suffix == "rs") {
            let text = std::fs::read_to_string(entry.path())
                .with_context(|| format!("reading {}", entry.path().display()))?;
            lines += text.lines().count();
        }
    }
    ensure!(
        lines <= STAND_IN_LINE_LIMIT,
        "the stand-in has {lines} lines of Rust, more than the {STAND_IN_LINE_LIMIT} it may have"
    );
    Ok(())
}

/// Checks licences, bans and sources of the crates of every platform; advisories need a database
/// from the network and are not checked here.
fn deny(progress: &Progress) -> Result<()> {
    fetch_every_platform(progress)?;
    let program = cargo_deny(progress)?;
    let status = Command::new(&program)
        .args(["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .current_dir(checkout()?)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    if status.success() { Ok(()) } else { bail!("cargo deny ended with {status}") }
}

/// Downloads the crates of every platform: a build downloads those of its own only, and
/// `cargo deny --offline` reads them all.
fn fetch_every_platform(progress: &Progress) -> Result<()> {
    progress.step("the crates of every platform are downloaded", || {
        let status = cargo(&["fetch", "--locked", "--quiet"])?
            .status()
            .context("starting cargo fetch for the crates of every platform")?;
        if status.success() { Ok(()) } else { bail!("cargo fetch --locked ended with {status}") }
    })
}

/// The `cargo-deny` of the cache, built there if need be.
fn cargo_deny(progress: &Progress) -> Result<PathBuf> {
    let cache = Cache::locate()?;
    let key = Key::new("cargo-deny", CARGO_DENY, &[]);
    let directory = match cache.find(&key) {
        Some(found) => found,
        None => progress.long_step("building cargo-deny", "4 min", || {
            cache.artefact(&key, install_cargo_deny)
        })?,
    };
    Ok(directory.join("bin/cargo-deny"))
}

fn install_cargo_deny(directory: &Path) -> Result<()> {
    let mut command = cargo(&["install", "--quiet", "--locked", "cargo-deny"])?;
    command.args(["--version", CARGO_DENY, "--no-default-features", "--root"]).arg(directory);
    let status = command.status().context("starting cargo install cargo-deny")?;
    if status.success() { Ok(()) } else { bail!("cargo install cargo-deny ended with {status}") }
}
