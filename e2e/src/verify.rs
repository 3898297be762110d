//! `verify`: the checks and tests of the project; those that find a fault soonest come first.

mod arguments;
mod changes;
mod images;
mod on_clusters;
mod report;
mod tools;

pub use self::tools::{CARGO_DENY_VERSION, MDBOOK_VERSION};

pub(crate) use self::arguments::Arguments;
use self::changes::{CHART, DASHBOARD, KSTATUS, MODEL, Passed, TESTS, WORKFLOWS};
use self::report::{ONLY_ALL, Report};
use crate::cache::{self, Cache};
use crate::cluster::ClusterChoice;
use crate::environment::Environment;
use crate::interruption::{self, Scope};
use crate::kubernetes::{self, Built, ClusterId, ContainerRuntime, Nodes};
use crate::product::images::for_tests;
use crate::product::{AGENT, cargo, chart, checkout, printed};
use crate::programs;
use crate::progress;
use crate::trial::evidence::EVIDENCE;
use anyhow::{Result, anyhow, bail, ensure};
use std::thread;

/// How many tests of one program run at the same time, where they need no cluster: those of the agent wait for its
/// processes.
const TESTS_AT_ONCE: &str = "6";

/// The package of the measurements.
const MEASUREMENTS: &str = "e2e-bench";

/// The test program of the model of the operator, and its tests. It keeps the processors busy for a minute, while the
/// other tests mostly wait, so it runs beside them.
const PROGRAM_OF_MODEL: &str = "model";
const TESTS_OF_MODEL: [&str; 2] = ["whatever_happens", "whatever_else_happens"];

/// Runs every check, shows the output of each as it comes, and reports at the end how each one went.
pub(crate) fn verify(arguments: &Arguments) -> Result<()> {
    let target = &arguments.cluster.target()?;
    interruption::guard(target.own().cloned(), Scope::Checkout)?;
    let _alone = alone()?;
    cache::remove_tree(&checkout()?.join(EVIDENCE))?;
    if let Some(filter) = &arguments.test {
        on_clusters::check_filter(filter)?;
    }
    let all = arguments.all;
    let report = Report::new(if all { Passed::default() } else { Passed::of_checkout()? });
    let files = Passed::now();
    let obstacle = obstacle(target);
    let own = target.own().filter(|_| arguments.test.is_none() && obstacle.is_none());
    // Both threads wait now and then, for downloads and for each other.
    let images = thread::scope(|scope| {
        let images = scope.spawn(|| {
            let images = images::build(&report, all);
            if let Some(own) = own {
                let name = "Kubernetes for the tests: built";
                report.check(name, || build_kubernetes(own, all));
            }
            with_servers(&report);
            report.check_changes("model of the operator", MODEL, || {
                programs::show_at_the_end(&mut cargo(&["test", "--test", PROGRAM_OF_MODEL])?)
            });
            // Before measurements no cluster runs.
            if own.is_some() && images.is_none() {
                let name = "programs, images and cluster of the tests: ready";
                report.check(name, || Environment::of_tests(target).map(drop));
            }
            images
        });
        without_cluster(&report, all)?;
        images.join().map_err(|_| anyhow!("a check of the images panicked"))
    })?;
    // Tests measure the processor time and the memory of these programs: nothing else runs beside them.
    if let Some(images) = &images {
        images::check(&report, images, all);
    }
    match obstacle {
        None => on_clusters::run(arguments, target, images.as_ref(), &report)?,
        Some(reason) if arguments.require_cluster => bail!("--require-cluster: {reason}"),
        Some(reason) => report.not_run("tests on a cluster", reason),
    }
    report.end()?;
    if images.is_some() {
        images::record()?;
    }
    if own.is_some() { files?.record() } else { Ok(()) }
}

/// Runs the checks that need no cluster and no image.
fn without_cluster(report: &Report, all: bool) -> Result<()> {
    cargo_checks(report, all)?;
    report.check("the agent's crates know no Kubernetes", check_agent_dependencies);
    tools::check(report, all)?;
    report.check_changes("the chart, and the manifests of it", CHART, chart::check);
    report.check_changes("dashboard: Grafana's types", DASHBOARD, tools::check_dashboard);
    report.check_changes("states of MiniClusters: kstatus", KSTATUS, tools::check_kstatus);
    report.check_changes("workflows: syntax, types, scripts", WORKFLOWS, tools::check_workflows);
    Ok(())
}

/// Runs the checks that mostly wait for a server or a browser.
fn with_servers(report: &Report) {
    thread::scope(|scope| {
        scope.spawn(|| tools::check_alerts(report));
        scope.spawn(|| tools::check_api(report));
        tools::check_page(report);
    });
}

/// Waits until no other `cargo verify` of this checkout runs: they share a cluster.
fn alone() -> Result<cache::Lock> {
    let name = format!(".{}.verify", ClusterId::of_this_checkout().as_str());
    let path = Cache::locate()?.clusters().join(name);
    cache::lock_or(&path, || {
        progress::log("waiting for another `cargo verify` of this checkout to end");
    })
}

/// Why the tests on a cluster cannot run; `None` if they can.
fn obstacle(target: &ClusterChoice) -> Option<&'static str> {
    (target.own().is_some() && !nix::unistd::geteuid().is_root()).then_some(
        "starting a cluster on this machine needs root; run as root, or name another cluster by \
         --kubeconfig FILE --load-command COMMAND",
    )
}

/// Runs the checks of cargo. The measurements are no default member: the lints compile them, which takes seconds, and
/// only `all` builds and tests them.
fn cargo_checks(report: &Report, all: bool) -> Result<()> {
    const DOCUMENTATION: &str = "documentation";
    report.run("format", "a second", &mut cargo(&["fmt", "--all", "--", "--check"])?);
    let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    report.run("lints", "4 min cold", &mut cargo(&lints)?);
    let mut tests = cargo(&["test", "--no-fail-fast", "--workspace"])?;
    if !all {
        tests.args(["--exclude", MEASUREMENTS]);
    }
    for (package, read) in TESTS {
        if report.leaves_out(&format!("tests of {package}"), read) {
            tests.args(["--exclude", package]);
        }
    }
    tests.arg("--").args(TESTS_OF_MODEL.iter().flat_map(|test| ["--skip", test]));
    tests.env("RUST_TEST_THREADS", TESTS_AT_ONCE);
    report.run("unit, snapshot and property tests", "5 min cold", &mut tests);
    if all {
        let words = ["doc", "--workspace", "--no-deps", "--document-private-items"];
        let mut documentation = cargo(&words)?;
        documentation.env("RUSTDOCFLAGS", "--deny warnings");
        report.run(DOCUMENTATION, "1 min cold", &mut documentation);
    } else {
        report.not_run(DOCUMENTATION, ONLY_ALL);
    }
    Ok(())
}

/// Builds everything that the clusters of the tests run. Otherwise some tests would build while others measure times.
fn build_kubernetes(own: &kubernetes::Options, all: bool) -> Result<()> {
    thread::scope(|scope| {
        // This mostly waits for downloads and dpkg.
        let systems = scope.spawn(|| for_tests::make_file_systems(&own.cache));
        let (nodes, sources): (_, &[&str]) = if all {
            let nodes = Nodes::Real(vec![ContainerRuntime::WithoutImageVolumes]);
            (nodes, &["kueue", "scheduler-plugins", "dra-example-driver"])
        } else {
            (Nodes::default(), &[])
        };
        Built::ensure(&own.cache, own.version, &nodes)?;
        for source in sources {
            kubernetes::go_programs(source, &own.cache)?;
        }
        systems.join().map_err(|_| anyhow!("making Debian's file systems panicked"))?
    })
}

/// Fails if the agent depends on a crate of Kubernetes.
fn check_agent_dependencies() -> Result<()> {
    let words = ["tree", "--package", AGENT, "--edges", "normal", "--prefix", "none"];
    let tree = printed(&mut cargo(&words)?)?;
    let unwanted: Vec<&str> =
        tree.lines().filter(|line| line.starts_with("kube") || line.starts_with("k8s-")).collect();
    ensure!(unwanted.is_empty(), "the agent depends on {unwanted:?}; it must not know Kubernetes");
    Ok(())
}
