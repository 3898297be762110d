//! `verify`: every check and test of the project, in the order in which a fault is cheapest to find.

mod chart;
mod emulated;
mod tools;
mod unused_items;

pub use self::tools::CARGO_DENY_VERSION;

use std::{panic::resume_unwind, process::Command, thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::{
    tools::{TOOLS, Tool},
    unused_items::rust_files,
};
use crate::{
    architecture::Architecture,
    cache::{self, Cache},
    cli::{ClusterArguments, use_cluster},
    cluster::Target,
    interruption::{self, Scope},
    kubernetes::{
        self, Built, ClusterId, ContainerRuntime, DownAtEnd, Kubernetes, KubernetesVersion, Nodes,
    },
    not_run,
    product::{
        binaries, cargo, checkout,
        dockerfiles::{self, Images},
        images::for_tests,
        of_this_machine, printed,
    },
    programs,
    progress::Progress,
    trial::evidence::EVIDENCE,
};

/// What is to be verified, and where.
#[derive(Debug, Args)]
pub struct Arguments {
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
const TRIALS_AT_ONCE: u8 = 5;
/// How many others of one program do: those of the agent wait for its processes.
const TESTS_AT_ONCE: &str = "4";

/// The tests that have clusters of their own, beside that of [`SHARED`].
const OWN: &str = "node";
/// The tests that share a cluster.
const SHARED: &str = "cluster";

/// Modules of [`OWN`] that only `--all` runs: Kueue, another scheduler and another containerd take ten minutes to
/// build, and the two nodes are lost and cut off for as long as it takes Kubernetes to notice.
const NIGHTLY: [&str; 3] = ["gang", "kueue", "two_nodes"];

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
const STAND_IN_LINE_LIMIT: usize = 4350;

/// Runs every check, shows the output of each as it comes, and says at the end how each one went.
pub fn verify(arguments: &Arguments, progress: &Progress) -> Result<()> {
    let target = &arguments.cluster.target()?;
    interruption::guard(target.own().cloned(), Scope::Checkout)?;
    let _alone = alone(progress)?;
    cache::remove_tree(&checkout()?.join(EVIDENCE))?;
    let mut outcomes = Vec::new();
    if let Some(filter) = &arguments.test {
        check_filter(filter)?;
    }
    let obstacle = obstacle(target);
    let own = target.own().filter(|_| arguments.test.is_none() && obstacle.is_none());
    outcomes.extend(check_and_build(own, arguments.all, progress)?);
    let images = images(&mut outcomes, arguments.all, progress);
    outcomes.push(timed("the stand-in for Flux is small", progress, check_stand_in_size));
    outcomes.extend(tools(arguments.all, progress)?);
    outcomes.push(timed("public items: used", progress, unused_items::check));
    outcomes.push(timed("the chart, and the manifests of it", progress, || chart::check(progress)));
    outcomes.push(timed("workflows: syntax, types, scripts", progress, || {
        tools::check_workflows(progress)
    }));
    match obstacle {
        None => outcomes.extend(on_the_cluster(arguments, target, images.as_ref(), progress)?),
        Some(reason) if arguments.require_cluster => bail!("--require-cluster: {reason}"),
        Some(reason) => outcomes.push(not_run("tests on a cluster", reason)),
    }
    summary(&outcomes, progress)
}

/// Checks by programs that take minutes to build: without `all`, by those alone that are built already.
fn tools(all: bool, progress: &Progress) -> Result<Vec<Outcome>> {
    let cache = Cache::locate()?;
    let outcome = |tool: &Tool| {
        if !all && tool.built(&cache).is_none() {
            return not_run(tool.checked, "its program is not built here; `--all` builds it");
        }
        timed(tool.checked, progress, || tool.check(progress))
    };
    Ok(TOOLS.iter().map(outcome).collect())
}

/// Builds the images that are shipped and checks what is in them; returns them for the tests on a cluster. Those for
/// other architectures only where `all` are asked for.
fn images(outcomes: &mut Vec<Outcome>, all: bool, progress: &Progress) -> Option<Images> {
    const NAME: &str = "images";
    const OTHERS: &str = "images and agent for the other architecture";
    if !nix::unistd::geteuid().is_root() {
        let reason =
            "building them needs root; tests on a cluster use images made without Dockerfiles";
        outcomes.push(not_run(NAME, reason));
        return None;
    }
    let mut built = None;
    outcomes.push(timed(NAME, progress, || {
        let architectures = if all { &Architecture::ALL[..] } else { &[of_this_machine()?] };
        built = Some(dockerfiles::build(architectures, progress)?);
        Ok(())
    }));
    let images = built?;
    outcomes.push(timed("operator and agent of the images: small", progress, || {
        let built = binaries::of_images(images.clone(), progress)?;
        binaries::check_agent_dependencies()?;
        binaries::check_static(&built)?;
        binaries::check_agent_budgets(&built)?;
        binaries::check_operator_memory(&built)
    }));
    outcomes.push(if all {
        timed(OTHERS, progress, || emulated::check(&images, progress))
    } else {
        not_run(OTHERS, ONLY_ALL)
    });
    Some(images)
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
    let mut list = cargo(&["test", "--quiet", "--package", "e2e", "--test", SHARED])?;
    let listed = printed(list.args(["--", "--ignored", "--list", filter]))?;
    ensure!(
        listed.contains(": test"),
        "--test {filter}: no test on a cluster has that in its name; `cargo test -p e2e --test cluster -- --ignored --list` lists them"
    );
    Ok(())
}

/// The checks that are one cargo command each.
fn checks(progress: &Progress) -> Result<Vec<Outcome>> {
    let check = |name, usually, mut command| run(name, usually, &mut command, progress);
    let format = cargo(&["fmt", "--all", "--", "--check"])?;
    let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"])?;
    tests.env("RUST_TEST_THREADS", TESTS_AT_ONCE);
    let documentation = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    let mut documentation = cargo(&documentation)?;
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    Ok(vec![
        check("format", "a second", format),
        check("lints", "4 min cold", cargo(&lints)?),
        check("unit, snapshot and property tests", "5 min cold", tests),
        check("documentation", "1 min cold", documentation),
    ])
}

/// What keeps the cluster tests from running, if anything does.
fn obstacle(target: &Target) -> Option<&'static str> {
    (target.own().is_some() && !nix::unistd::geteuid().is_root()).then_some(
        "starting a cluster on this machine needs root; run as root, or name another cluster by \
         --kubeconfig FILE --load-command COMMAND",
    )
}

/// Runs the checks, and beside them builds all that runs on clusters of the tests: both have to wait now and then, for
/// what is downloaded and for each other's ends.
fn check_and_build(
    own: Option<&kubernetes::Options>,
    all: bool,
    progress: &Progress,
) -> Result<Vec<Outcome>> {
    const NAME: &str = "what runs on the tests' clusters: built";
    let Some(own) = own else { return checks(progress) };
    beside(|| timed(NAME, progress, || build_programs(own, all, progress)), || checks(progress))
}

fn on_the_cluster(
    arguments: &Arguments,
    target: &Target,
    images: Option<&Images>,
    progress: &Progress,
) -> Result<Vec<Outcome>> {
    let notes = tempfile::NamedTempFile::new().context("making a file for what does not run")?;
    let tests = |program| -> Result<Command> {
        let mut command = ignored_tests(program, target)?;
        command.args(&arguments.test).envs([not_run::environment(notes.path())]);
        command.envs(images.map(|images| (binaries::IMAGES, images.directory())));
        Ok(command)
    };
    let shared = || {
        const NAME: &str = "tests and examples on a cluster";
        Ok(vec![run(NAME, "2 to 10 min", &mut tests(SHARED)?, progress)])
    };
    let with_own = target.own().is_some() && arguments.test.is_none();
    let mut outcomes = if with_own {
        const NAME: &str = "tests with clusters of their own";
        let mut own = tests(OWN)?;
        if !arguments.all {
            own.args(NIGHTLY.iter().flat_map(|module| ["--skip", module]));
        }
        progress.say(&format!("{NAME} (usually 2 to 10 min), beside what follows ..."));
        beside(|| timed(NAME, progress, || programs::show_at_the_end(&mut own)), shared)?
    } else {
        shared()?
    };
    let left_out = not_run::noted(notes.path());
    outcomes.extend(left_out.into_iter().map(|reason| not_run("a test", &reason)));
    if with_own {
        outcomes.extend(nightly(arguments.all, progress)?);
    }
    if let Some(own) = target.own().filter(|_| !arguments.keep) {
        progress.step("the cluster is down", || Kubernetes::down(own))?;
    }
    Ok(outcomes)
}

/// The tests of a program that need a cluster, on this one.
fn ignored_tests(program: &str, target: &Target) -> Result<Command> {
    let mut command = cargo(&["test", "--package", "e2e", "--test", program, "--", "--ignored"])?;
    command.arg(format!("--test-threads={TRIALS_AT_ONCE}"));
    use_cluster(&mut command, target);
    Ok(command)
}

/// The tests of [`CHOSEN`] on a cluster of each other version of Kubernetes, with `all`; else what is left out.
fn nightly(all: bool, progress: &Progress) -> Result<Vec<Outcome>> {
    if !all {
        let names = NIGHTLY.into_iter().chain(["tests on every version of Kubernetes"]);
        return Ok(names.map(|name| not_run(name, ONLY_ALL)).collect());
    }
    let others = KubernetesVersion::all().iter().filter(|it| **it != KubernetesVersion::default());
    let outcome = |version: &KubernetesVersion| {
        let own = kubernetes::Options::of_version(*version)?;
        let mut tests = ignored_tests(SHARED, &Target::Own(own.clone()))?;
        let name = format!("tests on Kubernetes {}", version.full());
        Ok(timed(&name, progress, || {
            let _down = DownAtEnd(own.clone());
            Kubernetes::up(&own, progress)?;
            programs::show(tests.args(CHOSEN))
        }))
    };
    others.map(outcome).collect()
}

/// Builds all that runs on clusters of the tests. Else some of the tests would build, and the others would have to
/// keep their times beside them.
fn build_programs(own: &kubernetes::Options, all: bool, progress: &Progress) -> Result<()> {
    if all {
        let nodes = Nodes::Real(vec![ContainerRuntime::WithoutImageVolumes]);
        Built::ensure(&own.cache, own.version, &nodes, progress)?;
        kubernetes::kueue(&own.cache, progress)?;
        kubernetes::scheduler_plugins(&own.cache, progress)?;
    } else {
        Built::ensure(&own.cache, own.version, &Nodes::default(), progress)?;
    }
    for_tests::make_file_systems(&own.cache, progress)
}

/// How one check went.
struct Outcome {
    name: String,
    /// Its line in the summary.
    line: String,
    failed: bool,
}

const ONLY_ALL: &str = "only `cargo verify --all` runs it, each night";

/// That it would pass nobody knows.
fn not_run(name: &str, reason: &str) -> Outcome {
    let line = format!("not run           {name}: {reason}");
    Outcome { name: name.to_owned(), line, failed: false }
}

fn run(name: &str, usually: &str, command: &mut Command, progress: &Progress) -> Outcome {
    progress.say(&format!("{name} (usually {usually}) ..."));
    timed(name, progress, || programs::show(command))
}

/// Does `work`, and at the same time what is `beside` it.
fn beside(
    beside: impl FnOnce() -> Outcome + Send,
    work: impl FnOnce() -> Result<Vec<Outcome>>,
) -> Result<Vec<Outcome>> {
    thread::scope(|scope| {
        let beside = scope.spawn(beside);
        let mut outcomes = work()?;
        outcomes.push(beside.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(outcomes)
    })
}

fn timed(name: &str, progress: &Progress, work: impl FnOnce() -> Result<()>) -> Outcome {
    // Nothing is begun while an interruption ends what there is.
    interruption::await_end();
    let begun = Instant::now();
    let outcome = work();
    let (took, failed) = (begun.elapsed().as_secs_f64(), outcome.is_err());
    if let Err(error) = outcome {
        progress.say(&format!("{name}: {error:#}"));
    }
    let ended = if failed { "FAILED" } else { "passed" };
    Outcome { name: name.to_owned(), line: format!("{ended}  {took:>6.1} s  {name}"), failed }
}

fn summary(outcomes: &[Outcome], progress: &Progress) -> Result<()> {
    for outcome in outcomes {
        progress.say(&outcome.line);
    }
    let failed = outcomes.iter().filter(|it| it.failed).map(|it| it.name.as_str());
    let failed = failed.collect::<Vec<_>>().join("; ");
    ensure!(
        failed.is_empty(),
        "failed: {failed}; what there is to see of tests on a cluster is in {EVIDENCE}"
    );
    Ok(())
}

fn check_stand_in_size() -> Result<()> {
    let files = rust_files(&checkout()?.join("e2e/stand-in"))?;
    let lines: usize = files.iter().map(|(_, text)| text.lines().count()).sum();
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
            let path = checkout().unwrap().join(format!("e2e/tests/node/{module}.rs"));
            assert!(path.is_file(), "{}", path.display());
        }
    }
}
