//! Programs beside cargo that check something. Each takes minutes to build, once: the cache keeps it.

use super::changes::{ALERTS, INSTANCE_API};
use super::report::Report;
use crate::cache::{self, Cache};
use crate::product::{cargo, checkout, fetch_every_platform, python, target};
use crate::progress;
use crate::{kubernetes, packages, programs};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// The release of cargo-deny that checks the dependencies, here and in workflows.
pub const CARGO_DENY_VERSION: &str = "0.20.2";

/// The release of mdBook that builds the book, here and in workflows.
pub const MDBOOK_VERSION: &str = "0.5.4";

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
    // Checks the crates of every platform. The workflow `advisories.yaml` checks advisories, which need a database from
    // the network.
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
    // Builds the book; fails if a page of its table of contents is missing. The features that watch and serve a book are
    // most of the program, and are left out.
    Tool {
        checked: "the documentation is a book",
        name: "mdbook",
        version: MDBOOK_VERSION,
        options: &["--no-default-features", "--features=search"],
        arguments: &["build"],
    },
];

/// Runs the checks by programs that take minutes to build; without `all` only those whose program is built already.
pub(super) fn check(report: &Report, all: bool) -> Result<()> {
    let cache = Cache::locate()?;
    for tool in &TOOLS {
        let key = cache::key(tool.name, tool.version, &[]);
        if all || cache.find(&key).is_some() {
            report.check(tool.checked, || tool.check(&cache, &key));
        } else {
            report.not_run(tool.checked, "its program is not built here; `--all` builds it");
        }
    }
    Ok(())
}

impl Tool {
    /// Builds the program if need be, and runs it on this checkout.
    fn check(&self, cache: &Cache, key: &str) -> Result<()> {
        fetch_every_platform()?;
        let directory = cache.artefact(key, |directory| {
            let what = format!("building {}", self.name);
            progress::long_step(&what, "4 min", || self.install(directory))
        })?;
        let program = directory.join("bin").join(self.name);
        programs::show(Command::new(program).args(self.arguments).current_dir(checkout()?))
    }

    /// Builds it without optimisation below the checkout's `target`, so that cargo builds no crate of the tests a second
    /// time. A run takes seconds all the same.
    fn install(&self, directory: &Path) -> Result<()> {
        let mut command = cargo(&["install", "--quiet", "--locked", "--debug", self.name])?;
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--target-dir").arg(target()?);
        command.args(["--version", self.version]).args(self.options).arg("--root").arg(directory);
        programs::show(&mut command)
    }
}

/// Checks what can be checked of the workflows of the repository's host without running them: syntax, types of
/// expressions, and the scripts in them where shellcheck is installed.
pub(super) fn check_workflows() -> Result<()> {
    let built = kubernetes::go_programs("actionlint", &Cache::locate()?)?;
    programs::show(Command::new(built.join("actionlint")).current_dir(checkout()?))
}

/// Checks the chart's alerts and dashboard with the program of Prometheus.
pub(super) fn check_alerts(report: &Report) {
    report.check_changes("alerts and dashboard: Prometheus", ALERTS, || {
        let prometheus = packages::unpacked("prometheus", &Cache::locate()?)?;
        let mut tests = cargo(&["test", "--test", "monitoring", "--", "--ignored"])?;
        programs::show_at_the_end(tests.env("PROMETHEUS", prometheus.join("usr/bin")))
    });
}

/// Uses the page of an instance in Chromium, where that is or can be installed.
pub(super) fn check_page(report: &Report) {
    const NAME: &str = "the page of an instance: in Chromium";
    if !nix::unistd::geteuid().is_root() && programs::find("chromedriver").is_none() {
        return report.not_run(NAME, "there is no chromedriver; installing it needs root");
    }
    report.check_changes(NAME, INSTANCE_API, || {
        packages::ensure(packages::BROWSER)?;
        let mut tests = cargo(&["test", "--package", "flux-rest", "--test", "it", "browser::"])?;
        programs::show_at_the_end(tests.args(["--", "--ignored"]))
    });
}

/// Reads the chart's dashboard with Grafana's own types.
pub(super) fn check_dashboard() -> Result<()> {
    let built = kubernetes::go_programs("dashboard", &Cache::locate()?)?;
    let mut read = Command::new(built.join("dashboard"));
    programs::show(read.arg("deploy/chart/files/dashboard.json").current_dir(checkout()?))
}

/// Compares the conditions of MiniClusters in every state with what kstatus makes of them.
pub(super) fn check_kstatus() -> Result<()> {
    let built = kubernetes::go_programs("kstatus", &Cache::locate()?)?;
    let mut tests = cargo(&["test", "--lib", "kstatus::"])?;
    programs::show_at_the_end(tests.args(["--", "--ignored"]).env("KSTATUS", built.join("kstatus")))
}

/// Runs Schemathesis, which sends right and wrong requests to the API of an instance and compares the answers with the
/// API's document; and the clients of flux-restful.
pub(super) fn check_api(report: &Report) {
    report.check_changes("the API of an instance: Schemathesis", INSTANCE_API, || {
        check_api_with("schema", "installing Schemathesis")
    });
    report.check_changes("the API of an instance: clients of flux-restful", INSTANCE_API, || {
        check_api_with("restful", "installing the clients of flux-restful")
    });
}

/// Runs these tests of the API with the packages of Python that they name; `what` installs them.
fn check_api_with(tests: &str, what: &str) -> Result<()> {
    let requirements = checkout()?.join("rest/tests/it").join(tests).join("requirements.txt");
    let packages = progress::long_step(what, "20 s", || python::packages(&requirements))?;
    let tests = format!("{tests}::");
    let mut tests = cargo(&["test", "--package", "flux-rest", "--test", "it", &tests])?;
    tests.args(["--", "--ignored"]).env("PYTHONPATH", packages);
    programs::show_at_the_end(&mut tests)
}
