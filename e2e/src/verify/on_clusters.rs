//! The tests on clusters: which of them run, on which cluster, beside which others.

use super::arguments::Arguments;
use super::changes::{CLUSTERS, FAULTS, INSTALL};
use super::report::{ONLY_ALL, Report};
use crate::cli::use_cluster;
use crate::cluster::ClusterChoice;
use crate::kubernetes::{self, DownAtEnd, Kubernetes, KubernetesVersion};
use crate::product::dockerfiles::Images;
use crate::product::{self, binaries, cargo, printed};
use crate::{notes, programs, progress};
use anyhow::{Context as _, Result, ensure};
use std::process::Command;
use std::thread;

/// The file below `target` with the time of each trial of the tests on clusters.
const TIMES: &str = "verify-trials.txt";

/// How many tests on a cluster run at the same time: mostly they wait.
const TRIALS_AT_ONCE: u8 = 6;

/// The program of the tests that have clusters of their own.
const OWN_CLUSTERS: &str = "own_clusters";
/// The program of the tests that share a cluster.
const SHARED_CLUSTER: &str = "shared_cluster";

/// Modules of [`OWN_CLUSTERS`] that only `--all` runs: a driver of devices, Kueue, another scheduler, another containerd
/// and what enforces network policies take ten minutes to build; Kubernetes needs minutes to notice a lost node; DNS is
/// away for longer than its clients ask; and the removal of several MiniClusters, 64 pods on a node, more clusters, over
/// IPv6 and with an API of metrics, and two clusters at once keep the processors busy.
const NIGHTLY: &str = "cpu_manager devices dns gang kueue large metrics_api network outages policies removal \
     two_clusters two_nodes";

/// The test of [`OWN_CLUSTERS`] that starts a cluster again and again, and interrupts that.
const INTERRUPTIONS: &str = "whatever_interrupts_it_up_";

/// Modules of [`OWN_CLUSTERS`] in which a control plane or a container fails.
const FAULTY: [&str; 2] = ["control_plane", "stopped_in_runc"];

/// Tests of [`SHARED_CLUSTER`] that run with nothing else beside them: they count the requests of a run, and the Warning
/// Events of a hundred runs, to which a busy machine adds.
const WITH_NOTHING_BESIDE: [&str; 2] = ["cost::a_run_costs_", HUNDRED_RUNS];
/// One of these, which only `--all` runs.
const HUNDRED_RUNS: &str = "quiet_events::";

/// Names of tests, or parts of them, whose outcome a version of Kubernetes may change: a start, jobs, another size, how
/// agent and view come into the pods, runs that end in every way.
const ON_EACH_VERSION: &str = "examples::hello_world examples::interactive examples::batch examples::elasticity install:: \
     runs::";

/// Runs the tests on a cluster, and ends that.
pub(super) fn run(
    arguments: &Arguments,
    target: &ClusterChoice,
    images: Option<&Images>,
    report: &Report,
) -> Result<()> {
    let not_run = tempfile::NamedTempFile::new().context("making a file for what does not run")?;
    let times = product::target()?.join(TIMES);
    // Absent, unless there was a run before.
    let _ = fs_err::remove_file(&times);
    let tests = |program| -> Result<Command> {
        let mut command = ignored_tests(program, target)?;
        command.args(&arguments.test).env(notes::NOT_RUN, not_run.path());
        command.env(notes::TIMES, &times);
        command.envs(images.map(|images| (binaries::IMAGES, &images.directory)));
        Ok(command)
    };
    let is_whole = arguments.test.is_none();
    let with_own = target.own().is_some() && is_whole;
    thread::scope(|scope| -> Result<()> {
        const NAME: &str = "tests with clusters of their own";
        if with_own {
            let mut own = tests(OWN_CLUSTERS)?;
            let left_out = left_out(report, arguments.all);
            own.args(left_out.iter().map(|test| format!("--skip={test}")));
            progress::log(&format!("{NAME} (usually 2 to 10 min), beside what follows ..."));
            scope.spawn(move || report.check(NAME, || programs::show_at_the_end(&mut own)));
        }
        let mut shared = tests(SHARED_CLUSTER)?;
        if is_whole {
            shared.args(WITH_NOTHING_BESIDE.iter().flat_map(|module| ["--skip", module]));
        }
        report.run("tests and examples on a cluster", "2 to 10 min", &mut shared);
        Ok(())
    })?;
    if is_whole {
        let mut alone = tests(SHARED_CLUSTER)?;
        let modules = WITH_NOTHING_BESIDE.iter();
        alone.args(modules.filter(|module| arguments.all || **module != HUNDRED_RUNS));
        report.run("what a run costs the API server", "a minute", &mut alone);
    }
    for reason in fs_err::read_to_string(not_run)?.lines() {
        report.not_run("a test", reason);
    }
    if with_own && arguments.all {
        on_other_versions(report)?;
    } else if with_own {
        report.not_run(HUNDRED_RUNS, ONLY_ALL);
        report.not_run("tests on every version of Kubernetes", ONLY_ALL);
    }
    if let Some(own) = target.own().filter(|_| !arguments.keep) {
        progress::step("the cluster is down", || Kubernetes::down(own))?;
    }
    Ok(())
}

/// How the names of the tests of [`OWN_CLUSTERS`] begin that are not run, which is noted.
fn left_out(report: &Report, all: bool) -> Vec<String> {
    let mut left_out = Vec::new();
    if !all {
        for module in NIGHTLY.split(' ') {
            report.not_run(module, ONLY_ALL);
            left_out.push(format!("{module}::"));
        }
    }
    if report.leaves_out("every way to install", INSTALL) {
        left_out.push("install::".to_owned());
    }
    if report.leaves_out("faults of control planes and containers", FAULTS) {
        left_out.extend(FAULTY.map(|module| format!("{module}::")));
    }
    if report.leaves_out("start, interruption and end of a cluster", CLUSTERS) {
        left_out.push(INTERRUPTIONS.to_owned());
    }
    left_out
}

fn ignored_tests(program: &str, target: &ClusterChoice) -> Result<Command> {
    let mut command = cargo(&["test", "--test", program, "--", "--ignored"])?;
    command.arg(format!("--test-threads={TRIALS_AT_ONCE}"));
    use_cluster(&mut command, target);
    Ok(command)
}

/// The tests of [`ON_EACH_VERSION`] on a cluster of each other version of Kubernetes.
fn on_other_versions(report: &Report) -> Result<()> {
    for version in KubernetesVersion::all() {
        if *version == KubernetesVersion::default() {
            continue;
        }
        let own = kubernetes::Options::of_version(*version)?;
        let mut tests = ignored_tests(SHARED_CLUSTER, &ClusterChoice::Own(own.clone()))?;
        report.check(&format!("tests on Kubernetes {}", version.full()), || {
            let _down = DownAtEnd(own.clone());
            Kubernetes::up(&own)?;
            programs::show(tests.args(ON_EACH_VERSION.split(' ')))
        });
    }
    Ok(())
}

/// Fails if no test on a cluster has `filter` in its name: a run without tests must not pass.
pub(super) fn check_filter(filter: &str) -> Result<()> {
    let mut list = cargo(&["test", "--quiet", "--test", SHARED_CLUSTER])?;
    let listed = printed(list.args(["--", "--ignored", "--list", filter]))?;
    ensure!(
        listed.contains(": test"),
        "--test {filter}: no test on a cluster has that in its name; \
         `cargo test -p e2e --test {SHARED_CLUSTER} -- --ignored --list` lists them"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::checkout;

    #[test]
    fn modules_that_are_left_out_exist() {
        for module in NIGHTLY.split(' ').chain(FAULTY).chain(["install"]) {
            let path = format!("e2e/tests/own_clusters/{module}.rs");
            assert!(checkout().unwrap().join(&path).is_file(), "{path}");
        }
    }
}
