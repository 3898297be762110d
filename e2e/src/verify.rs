//! `verify`: every check and test of the project, in the order in which a fault is cheapest to find.

mod images;
mod report;
mod tools;

pub use self::tools::CARGO_DENY_VERSION;

use self::report::{ONLY_ALL, Report};
use crate::cache::{self, Cache};
use crate::cli::{ClusterArguments, use_cluster};
use crate::cluster::Target;
use crate::interruption::{self, Scope};
use crate::kubernetes::{
    self, Built, ClusterId, ContainerRuntime, DownAtEnd, Kubernetes, KubernetesVersion, Nodes,
};
use crate::product::dockerfiles::Images;
use crate::product::images::for_tests;
use crate::product::{binaries, cargo, chart, checkout, printed};
use crate::progress::Progress;
use crate::trial::evidence::EVIDENCE;
use crate::{not_run, programs};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use std::process::Command;
use std::thread;
use walkdir::WalkDir;

/// What is to be verified, and where.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Run only the cluster tests whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    test: Option<String>,
    /// Run also what runs each night: other architectures, versions of Kubernetes, containerds and schedulers,
    /// and nodes that fail.
    #[arg(long)]
    all: bool,
    /// Leave the cluster up at the end.
    #[arg(long)]
    keep: bool,
    /// Fail where the tests on a cluster cannot run, instead of saying so.
    #[arg(long)]
    require_cluster: bool,
}

/// How many tests on a cluster run at the same time: they wait most of their time.
const TRIALS_AT_ONCE: u8 = 6;
/// How many others of one program do: those of the agent wait for its processes.
const TESTS_AT_ONCE: &str = "6";

/// The tests that have clusters of their own, beside that of [`SHARED`].
const OWN: &str = "own_clusters";
/// The tests that share a cluster.
const SHARED: &str = "shared_cluster";

/// Modules of [`OWN`] that only `--all` runs: a driver of devices, Kueue, another scheduler and another containerd take
/// ten minutes to build, the two nodes are lost and cut off for as long as it takes Kubernetes to notice, DNS is away for
/// longer than it is asked, and what comes and goes at random keeps the processors busy, as one more cluster, over IPv6,
/// does.
const NIGHTLY: [&str; 8] =
    ["cpu_manager", "devices", "dns", "gang", "kueue", "network", "random", "two_nodes"];

/// Modules of [`SHARED`] that run with nothing else beside them: they count requests, and the Warning Events of a hundred
/// runs, to which a machine with much to do adds.
const ALONE: [&str; 2] = ["cost::", HUNDRED_RUNS];
/// That of them which only `--all` runs.
const HUNDRED_RUNS: &str = "quiet_events::";

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

/// Lines of Rust that the stand-in for Flux may have, its tests included: nobody wants to keep more
/// true for something that proves nothing about Flux.
const STAND_IN_LINE_LIMIT: usize = 4500;

/// Runs every check, shows the output of each as it comes, and says at the end how each one went.
pub(crate) fn verify(arguments: &Arguments, progress: &Progress) -> Result<()> {
    let target = &arguments.cluster.target()?;
    interruption::guard(target.own().cloned(), Scope::Checkout)?;
    let _alone = alone(progress)?;
    cache::remove_tree(&checkout()?.join(EVIDENCE))?;
    if let Some(filter) = &arguments.test {
        check_filter(filter)?;
    }
    let report = Report::new(progress);
    let all = arguments.all;
    let obstacle = obstacle(target);
    let own = target.own().filter(|_| arguments.test.is_none() && obstacle.is_none());
    // Both have to wait now and then, for what is downloaded and for each other's ends.
    let images = thread::scope(|scope| {
        const NAME: &str = "what runs on the tests' clusters: built";
        let images = scope.spawn(|| {
            if let Some(own) = own {
                report.check(NAME, || build_programs(own, all, progress));
            }
            let images = images::build(&report, all);
            with_servers(&report);
            images
        });
        without_cluster(&report, all)?;
        images.join().map_err(|_| anyhow!("a check of the images panicked"))
    })?;
    // Their processor time and memory are measured: nothing else runs beside them.
    if let Some(images) = &images {
        images::check(&report, images, all);
    }
    match obstacle {
        None => on_the_cluster(arguments, target, images.as_ref(), &report)?,
        Some(reason) if arguments.require_cluster => bail!("--require-cluster: {reason}"),
        Some(reason) => report.not_run("tests on a cluster", reason),
    }
    report.end()
}

/// Runs what needs no cluster and no image.
fn without_cluster(report: &Report<'_>, all: bool) -> Result<()> {
    let progress = report.progress;
    cargo_checks(report)?;
    report.check("the stand-in for Flux is small", check_stand_in_size);
    tools::check(report, all)?;
    report.check("the chart, and the manifests of it", || chart::check(progress));
    report.check("dashboard: Grafana's types", || tools::check_dashboard(progress));
    report.check("states of MiniClusters: kstatus", || tools::check_kstatus(progress));
    report.check("workflows: syntax, types, scripts", || tools::check_workflows(progress));
    Ok(())
}

/// Runs what waits for a server or a browser most of its time.
fn with_servers(report: &Report<'_>) {
    const ALERTS: &str = "alerts and dashboard: Prometheus";
    const API: &str = "the API of an instance: Schemathesis";
    let progress = report.progress;
    thread::scope(|scope| {
        scope.spawn(|| report.check(ALERTS, || tools::check_alerts(progress)));
        scope.spawn(|| report.check(API, || tools::check_api(progress)));
        tools::check_page(report);
    });
}

/// Waits until no other `cargo verify` of this checkout runs: they share a cluster.
fn alone(progress: &Progress) -> Result<cache::Lock> {
    let name = format!(".{}.verify", ClusterId::of_this_checkout().as_str());
    let path = Cache::locate()?.clusters().join(name);
    cache::lock_or(&path, || {
        progress.say("waiting for another `cargo verify` of this checkout to end");
    })
}

/// Fails where no test on a cluster has `filter` in its name: nothing that runs nothing has passed.
fn check_filter(filter: &str) -> Result<()> {
    let mut list = cargo(&["test", "--quiet", "--workspace", "--test", SHARED])?;
    let listed = printed(list.args(["--", "--ignored", "--list", filter]))?;
    ensure!(
        listed.contains(": test"),
        "--test {filter}: no test on a cluster has that in its name; `cargo test -p e2e --test shared_cluster -- --ignored --list` lists them"
    );
    Ok(())
}

/// What keeps the cluster tests from running, if anything does.
fn obstacle(target: &Target) -> Option<&'static str> {
    (target.own().is_some() && !nix::unistd::geteuid().is_root()).then_some(
        "starting a cluster on this machine needs root; run as root, or name another cluster by \
         --kubeconfig FILE --load-command COMMAND",
    )
}

fn cargo_checks(report: &Report<'_>) -> Result<()> {
    report.run("format", "a second", &mut cargo(&["fmt", "--all", "--", "--check"])?);
    let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    report.run("lints", "4 min cold", &mut cargo(&lints)?);
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"])?;
    tests.env("RUST_TEST_THREADS", TESTS_AT_ONCE);
    report.run("unit, snapshot and property tests", "5 min cold", &mut tests);
    let documentation = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    let mut documentation = cargo(&documentation)?;
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    report.run("documentation", "1 min cold", &mut documentation);
    Ok(())
}

/// Builds all that runs on clusters of the tests. Else some of the tests would build, and the others would have to
/// keep their times beside them.
fn build_programs(own: &kubernetes::Options, all: bool, progress: &Progress) -> Result<()> {
    if all {
        let nodes = Nodes::Real(vec![ContainerRuntime::WithoutImageVolumes]);
        Built::ensure(&own.cache, own.version, &nodes, progress)?;
        for source in ["kueue", "scheduler-plugins", "dra-example-driver"] {
            kubernetes::go_programs(source, &own.cache, progress)?;
        }
    } else {
        Built::ensure(&own.cache, own.version, &Nodes::default(), progress)?;
    }
    for_tests::make_file_systems(&own.cache, progress)
}

fn on_the_cluster(
    arguments: &Arguments,
    target: &Target,
    images: Option<&Images>,
    report: &Report<'_>,
) -> Result<()> {
    let notes = tempfile::NamedTempFile::new().context("making a file for what does not run")?;
    let tests = |program| -> Result<Command> {
        let mut command = ignored_tests(program, target)?;
        command.args(&arguments.test).env(not_run::VARIABLE, notes.path());
        command.envs(images.map(|images| (binaries::IMAGES, &images.directory)));
        Ok(command)
    };
    let is_whole = arguments.test.is_none();
    let with_own = target.own().is_some() && is_whole;
    thread::scope(|scope| -> Result<()> {
        const NAME: &str = "tests with clusters of their own";
        if with_own {
            let mut own = tests(OWN)?;
            if !arguments.all {
                own.args(NIGHTLY.iter().map(|module| format!("--skip={module}::")));
            }
            report.progress.say(&format!("{NAME} (usually 2 to 10 min), beside what follows ..."));
            scope.spawn(move || report.check(NAME, || programs::show_at_the_end(&mut own)));
        }
        let mut shared = tests(SHARED)?;
        if is_whole {
            shared.args(ALONE.iter().flat_map(|module| ["--skip", module]));
        }
        report.run("tests and examples on a cluster", "2 to 10 min", &mut shared);
        Ok(())
    })?;
    if is_whole {
        let mut alone = tests(SHARED)?;
        alone.args(ALONE.iter().filter(|module| arguments.all || **module != HUNDRED_RUNS));
        report.run("what a run costs the API server", "a minute", &mut alone);
    }
    for reason in fs_err::read_to_string(notes)?.lines() {
        report.not_run("a test", reason);
    }
    if with_own && arguments.all {
        on_other_versions(report)?;
    } else if with_own {
        let names = NIGHTLY.into_iter();
        let names = names.chain([HUNDRED_RUNS, "tests on every version of Kubernetes"]);
        names.for_each(|name| report.not_run(name, ONLY_ALL));
    }
    if let Some(own) = target.own().filter(|_| !arguments.keep) {
        report.progress.step("the cluster is down", || Kubernetes::down(own))?;
    }
    Ok(())
}

/// The tests of a program that need a cluster, on this one.
fn ignored_tests(program: &str, target: &Target) -> Result<Command> {
    let mut command = cargo(&["test", "--workspace", "--test", program, "--", "--ignored"])?;
    command.arg(format!("--test-threads={TRIALS_AT_ONCE}"));
    use_cluster(&mut command, target);
    Ok(command)
}

/// The tests of [`CHOSEN`] on a cluster of each other version of Kubernetes.
fn on_other_versions(report: &Report<'_>) -> Result<()> {
    for version in KubernetesVersion::all() {
        if *version == KubernetesVersion::default() {
            continue;
        }
        let own = kubernetes::Options::of_version(*version)?;
        let mut tests = ignored_tests(SHARED, &Target::Own(own.clone()))?;
        report.check(&format!("tests on Kubernetes {}", version.full()), || {
            let _down = DownAtEnd(own.clone());
            Kubernetes::up(&own, report.progress)?;
            programs::show(tests.args(CHOSEN))
        });
    }
    Ok(())
}

fn check_stand_in_size() -> Result<()> {
    let mut lines = 0;
    for entry in WalkDir::new(checkout()?.join("e2e/stand-in")) {
        let entry = entry?;
        if entry.path().extension().is_some_and(|suffix| suffix == "rs") {
            lines += fs_err::read_to_string(entry.path())?.lines().count();
        }
    }
    ensure!(
        lines <= STAND_IN_LINE_LIMIT,
        "the stand-in has {lines} lines of Rust, more than the {STAND_IN_LINE_LIMIT} it may have"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_night_runs_is_there() {
        for module in NIGHTLY {
            let path = checkout().unwrap().join(format!("e2e/tests/own_clusters/{module}.rs"));
            assert!(path.is_file(), "{}", path.display());
        }
    }
}
