//! Programs of cargo's that check something. Each takes minutes to build: once built, the cache has it.

use super::changes::{ALERTS, INSTANCE_API};
use super::report::Report;
use crate::cache::{self, Cache};
use crate::product::{cargo, checkout, fetch_every_platform, python, target};
use crate::progress::Progress;
use crate::{kubernetes, packages, programs};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// The release of cargo-deny that checks the dependencies, here and in workflows.
pub const CARGO_DENY_VERSION: &str = "0.20.2";

/// A program that `cargo install` builds.
struct Tool {
    checked: &'static str,
    name: &'static str,
    version: &'static str,
    /// How it is built.
    options: &'static [&'static str],
    /// How it checks.
    arguments: &'static [&'static str],
}

const TOOLS: [Tool; 3] = [
    // Of the crates of every platform. Advisories need a database from the network: the workflow `advisories.yaml`
    // checks them.
    Tool {
        checked: "dependencies: licences, bans, sources",
        name: "cargo-deny",
        version: CARGO_DENY_VERSION,
        options: &["--no-default-features"],
        arguments: &["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    },
    Tool {
        checked: "dependencies: used",
        name: "cargo-machete",
        version: "0.9.2",
        options: &[],
        arguments: &["--skip-target-dir"],
    },
    // Builds the book where `book.toml` says; fails where a page of its table of contents is missing. Without the
    // parts that watch and serve a book, which are most of it.
    Tool {
        checked: "the documentation is a book",
        name: "mdbook",
        version: "0.5.4",
        options: &["--no-default-features", "--features=search"],
        arguments: &["build"],
    },
];

/// Checks by programs that take minutes to build: without `all`, by those alone that are built already.
pub(super) fn check(report: &Report<'_>, all: bool) -> Result<()> {
    let cache = Cache::locate()?;
    for tool in &TOOLS {
        let key = cache::key(tool.name, tool.version, &[]);
        if all || cache.find(&key).is_some() {
            report.check(tool.checked, || tool.check(&cache, &key, report.progress));
        } else {
            report.not_run(tool.checked, "its program is not built here; `--all` builds it");
        }
    }
    Ok(())
}

impl Tool {
    /// Lets it check this checkout. It is built if need be.
    fn check(&self, cache: &Cache, key: &str, progress: &Progress) -> Result<()> {
        fetch_every_platform(progress)?;
        let directory = cache.artefact(key, |directory| {
            let what = format!("building {}", self.name);
            progress.long_step(&what, "4 min", || self.install(directory))
        })?;
        let program = directory.join("bin").join(self.name);
        programs::show(Command::new(program).args(self.arguments).current_dir(checkout()?))
    }

    /// Unoptimised, and below the checkout's `target`: so the crates that the tests have as well are not built
    /// a second time, and a run takes seconds all the same.
    fn install(&self, directory: &Path) -> Result<()> {
        let mut command = cargo(&["install", "--quiet", "--locked", "--debug", self.name])?;
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--target-dir").arg(target()?);
        command.args(["--version", self.version]).args(self.options).arg("--root").arg(directory);
        programs::show(&mut command)
    }
}

/// Checks what can be checked of the workflows of the repository's host without running them: syntax, types of
/// expressions, and the scripts in them where shellcheck is installed.
pub(super) fn check_workflows(progress: &Progress) -> Result<()> {
    let built = kubernetes::go_programs("actionlint", &Cache::locate()?, progress)?;
    programs::show(Command::new(built.join("actionlint")).current_dir(checkout()?))
}

/// Lets the program of Prometheus check the chart's alerts and dashboard.
pub(super) fn check_alerts(report: &Report<'_>) {
    report.check_changes("alerts and dashboard: Prometheus", ALERTS, || {
        let prometheus = packages::unpacked("prometheus", &Cache::locate()?, report.progress)?;
        let mut tests = cargo(&["test", "--test", "monitoring", "--", "--ignored"])?;
        programs::show_at_the_end(tests.env("PROMETHEUS", prometheus.join("usr/bin")))
    });
}

/// Uses the page of an instance in Chromium, where that is or can be installed.
pub(super) fn check_page(report: &Report<'_>) {
    const NAME: &str = "the page of an instance: in Chromium";
    if !nix::unistd::geteuid().is_root() && programs::find("chromedriver").is_none() {
        return report.not_run(NAME, "there is no chromedriver; installing it needs root");
    }
    report.check_changes(NAME, INSTANCE_API, || {
        packages::ensure(packages::BROWSER, report.progress)?;
        let mut tests = cargo(&["test", "--test", "it", "browser::"])?;
        programs::show_at_the_end(tests.args(["--", "--ignored"]))
    });
}

/// Reads the chart's dashboard as Grafana's own types have it.
pub(super) fn check_dashboard(progress: &Progress) -> Result<()> {
    let built = kubernetes::go_programs("dashboard", &Cache::locate()?, progress)?;
    let mut read = Command::new(built.join("dashboard"));
    programs::show(read.arg("deploy/chart/files/dashboard.json").current_dir(checkout()?))
}

/// Lets kstatus judge MiniClusters in every state.
pub(super) fn check_kstatus(progress: &Progress) -> Result<()> {
    let built = kubernetes::go_programs("kstatus", &Cache::locate()?, progress)?;
    let mut tests = cargo(&["test", "--lib", "kstatus::"])?;
    programs::show_at_the_end(tests.args(["--", "--ignored"]).env("KSTATUS", built.join("kstatus")))
}

/// Lets Schemathesis ask the API of an instance for what its document allows, and for what it does not.
pub(super) fn check_api(report: &Report<'_>) {
    report.check_changes("the API of an instance: Schemathesis", INSTANCE_API, || {
        let requirements = checkout()?.join("agent/tests/it/schema/requirements.txt");
        let what = "installing Schemathesis";
        let packages =
            report.progress.long_step(what, "20 s", || python::packages(&requirements))?;
        let mut tests = cargo(&["test", "--test", "it", "schema::", "--", "--ignored"])?;
        programs::show_at_the_end(tests.env("PYTHONPATH", packages))
    });
}
