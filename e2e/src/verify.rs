//! `verify`: every check and test of the project, in the order in which a fault is cheapest to find.

pub mod chart;
mod emulated;
mod tools;
mod unused_items;
mod workflows;

pub use self::tools::CARGO_DENY_VERSION;

use std::{
    panic::resume_unwind,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use walkdir::WalkDir;

use self::tools::{CARGO_DENY, CARGO_MACHETE, MDBOOK, Tool};
use crate::{
    architecture::Architecture,
    cache::{self, Cache},
    cli::use_cluster,
    cluster::Target,
    interruption,
    kubernetes::{
        self, Built, ClusterId, ContainerRuntime, DownAtEnd, Kubernetes, KubernetesVersion, Nodes,
    },
    not_run,
    product::{
        binaries, cargo, checkout,
        dockerfiles::{self, Images},
        images::for_tests,
    },
    programs,
    progress::Progress,
    trial::evidence::EVIDENCE,
};

/// What is to be verified, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster of the tests that need one.
    pub target: Target,
    /// Only the cluster tests whose names contain this text run.
    pub filter: Option<String>,
    /// Besides, what a change rarely breaks and what takes long: what runs each night.
    pub all: bool,
    /// The cluster stays up at the end.
    pub keep: bool,
    /// That the tests on a cluster cannot run is a failure.
    pub require_cluster: bool,
}

/// One check: its name, and the command that makes it.
struct Check {
    name: &'static str,
    usually: &'static str,
    command: Command,
}

/// How many tests on a cluster run at the same time: they wait most of their time.
const TRIALS_AT_ONCE: u8 = 5;
/// How many others of one program do: those of the agent wait for its processes.
const TESTS_AT_ONCE: &str = "4";

/// A program of tests, and what it is called.
type Tests = (&'static str, &'static str);

/// Tests that have clusters of their own, beside the one that [`SHARED`] share.
const OWN: Tests = ("node", "tests with clusters of their own");
/// Tests on one cluster, one program after the other.
const SHARED: [Tests; 1] = [("cluster", "tests and examples on a cluster")];

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
const STAND_IN_LINE_LIMIT: usize = 4500;

/// Runs every check, shows the output of each as it comes, and says at the end how each one went.
pub fn verify(options: &Options, progress: &Progress) -> Result<()> {
    let _alone = alone(progress)?;
    cache::remove_tree(&checkout()?.join(EVIDENCE))?;
    let mut outcomes = Vec::new();
    if let Some(filter) = &options.filter {
        check_filter(filter)?;
    }
    let obstacle = obstacle(&options.target);
    let own = match &options.target {
        Target::Own(own) if options.filter.is_none() && obstacle.is_none() => Some(own),
        Target::Own(_) | Target::External { .. } => None,
    };
    outcomes.extend(check_and_build(checks()?, own, options.all, progress));
    let images = images(&mut outcomes, options.all, progress);
    outcomes.push(timed("the stand-in for Flux is small", progress, check_stand_in_size));
    outcomes.extend(tools(options.all, progress));
    outcomes.push(timed("public items: used", progress, unused_items::check));
    outcomes.push(timed("the chart, and the manifests of it", progress, || chart::check(progress)));
    outcomes
        .push(timed("workflows: syntax, types, scripts", progress, || workflows::check(progress)));
    match obstacle {
        None => outcomes.extend(on_the_cluster(options, own, images.as_ref(), progress)?),
        Some(reason) if options.require_cluster => bail!("--require-cluster: {reason}"),
        Some(reason) => outcomes.push(not_run("tests on a cluster", reason)),
    }
    summary(&outcomes, progress)
}

/// Checks by programs that take minutes to build: without `all`, by those alone that are built already.
fn tools(all: bool, progress: &Progress) -> Vec<Outcome> {
    let check = |name, tool: &Tool, work: &dyn Fn(&Path) -> Result<()>| match tool.built() {
        Ok(None) if !all => not_run(name, "its program is not built here; `--all` builds it"),
        _ => timed(name, progress, || work(&tool.program(progress)?)),
    };
    vec![
        check("dependencies: licences, bans, sources", &CARGO_DENY, &|program| {
            tools::deny(program, progress)
        }),
        check("dependencies: used", &CARGO_MACHETE, &tools::unused_dependencies),
        check("the documentation is a book", &MDBOOK, &tools::build_book),
    ]
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
        let here = Architecture::of_this_machine().context("this machine's architecture")?;
        let architectures = if all { &Architecture::ALL[..] } else { &[here] };
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
    for (test, _) in SHARED {
        let words = ["test", "--quiet", "--package", "e2e", "--test", test];
        let mut list = cargo(&words)?;
        let listed = programs::run(list.args(["--", "--ignored", "--list", filter]))?;
        if String::from_utf8_lossy(&listed.stdout).contains(": test") {
            return Ok(());
        }
    }
    bail!(
        "--test {filter}: no test on a cluster has that in its name; `cargo test -p e2e --test cluster -- --ignored --list` lists them"
    )
}

/// The checks that are one cargo command each.
fn checks() -> Result<Vec<Check>> {
    let mut documentation =
        cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"])?;
    documentation.env("RUSTDOCFLAGS", "--deny warnings");
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"])?;
    tests.env("RUST_TEST_THREADS", TESTS_AT_ONCE);
    let lints = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    Ok(vec![
        Check {
            name: "format",
            usually: "a second",
            command: cargo(&["fmt", "--all", "--", "--check"])?,
        },
        Check { name: "lints", usually: "4 min cold", command: cargo(&lints)? },
        Check { name: "unit, snapshot and property tests", usually: "5 min cold", command: tests },
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

/// Runs checks one after the other, and beside them builds all that runs on clusters of the tests: both have to wait
/// now and then, for what is downloaded and for each other's ends.
fn check_and_build(
    checks: Vec<Check>,
    own: Option<&kubernetes::Options>,
    all: bool,
    progress: &Progress,
) -> Vec<Outcome> {
    const NAME: &str = "what runs on the tests' clusters: built";
    thread::scope(|scope| {
        let building = own.map(|own| {
            scope.spawn(move || timed(NAME, progress, || build_programs(own, all, progress)))
        });
        let mut outcomes: Vec<_> = checks.into_iter().map(|check| run(check, progress)).collect();
        let built = building.map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes.extend(built);
        outcomes
    })
}

fn on_the_cluster(
    options: &Options,
    own: Option<&kubernetes::Options>,
    images: Option<&Images>,
    progress: &Progress,
) -> Result<Vec<Outcome>> {
    let notes = tempfile::NamedTempFile::new().context("making a file for what does not run")?;
    let check = |tests| -> Result<Check> {
        let mut check = ignored_tests(tests, options, images)?;
        let (variable, path) = not_run::environment(notes.path());
        check.command.env(variable, path);
        Ok(check)
    };
    let shared = SHARED.map(check).into_iter().collect::<Result<Vec<_>>>()?;
    let mut outcomes = match own {
        Some(_) => {
            let mut own = check(OWN)?;
            if !options.all {
                own.command.args(NIGHTLY.iter().flat_map(|module| ["--skip", module]));
            }
            beside(own, shared, progress)
        }
        None => shared.into_iter().map(|check| run(check, progress)).collect(),
    };
    outcomes
        .extend(not_run::noted(notes.path()).into_iter().map(|reason| not_run("a test", &reason)));
    if own.is_some() {
        outcomes.extend(nightly(options, progress)?);
    }
    if let Target::Own(own) = &options.target
        && !options.keep
    {
        progress.step("the cluster is down", || Kubernetes::down(own))?;
    }
    Ok(outcomes)
}

/// The tests of [`CHOSEN`] on a cluster of each other version of Kubernetes, with `all`; else what is left out.
fn nightly(options: &Options, progress: &Progress) -> Result<Vec<Outcome>> {
    let others = KubernetesVersion::all().iter().filter(|it| **it != KubernetesVersion::default());
    if !options.all {
        let versions = ["tests on every version of Kubernetes"];
        let names = NIGHTLY.into_iter().chain(versions);
        return Ok(names.map(|name| not_run(name, ONLY_ALL)).collect());
    }
    others.map(|version| on_version(*version, progress)).collect()
}

/// How the tests of [`CHOSEN`] went on a cluster of this version.
fn on_version(version: KubernetesVersion, progress: &Progress) -> Result<Outcome> {
    let own = kubernetes::Options::of_version(version)?;
    let mut command = cargo(&["test", "--package", "e2e", "--test", "cluster", "--"])?;
    let threads = format!("--test-threads={TRIALS_AT_ONCE}");
    command.args(["--ignored", &threads]).args(CHOSEN);
    use_cluster(&mut command, &Target::Own(own.clone()));
    let name = format!("tests on Kubernetes {}", version.full());
    Ok(timed(&name, progress, || {
        let _down = DownAtEnd(own.clone());
        Kubernetes::up(&own, progress)?;
        programs::show(&mut command)
    }))
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

fn ignored_tests((test, name): Tests, options: &Options, images: Option<&Images>) -> Result<Check> {
    let mut command = cargo(&["test", "--package", "e2e", "--test", test, "--"])?;
    let threads = format!("--test-threads={TRIALS_AT_ONCE}");
    command.args(["--ignored", &threads]).args(&options.filter);
    use_cluster(&mut command, &options.target);
    command.envs(images.map(|images| (binaries::IMAGES, images.directory())));
    Ok(Check { name, usually: "2 to 10 min", command })
}

/// How one check went.
struct Outcome {
    name: String,
    result: Verdict,
    took: Duration,
}

/// What there is to say of a check.
enum Verdict {
    Passed,
    Failed,
    /// For this reason; that it would pass nobody knows.
    NotRun(String),
}

const ONLY_ALL: &str = "only `cargo verify --all` runs it, each night";

fn not_run(name: &str, reason: &str) -> Outcome {
    Outcome {
        name: name.to_owned(),
        result: Verdict::NotRun(reason.to_owned()),
        took: Duration::ZERO,
    }
}

fn run(mut check: Check, progress: &Progress) -> Outcome {
    timed(check.name, progress, || {
        progress.say(&format!("{} (usually {}) ...", check.name, check.usually));
        programs::show(&mut check.command)
    })
}

/// Runs a check at the same time as others that follow each other. What it says is shown when it has ended.
fn beside(mut check: Check, others: Vec<Check>, progress: &Progress) -> Vec<Outcome> {
    progress.say(&format!("{} (usually {}), beside what follows ...", check.name, check.usually));
    thread::scope(|scope| {
        let beside = scope.spawn(move || {
            timed(check.name, progress, || programs::show_at_the_end(&mut check.command))
        });
        let mut outcomes: Vec<_> = others.into_iter().map(|check| run(check, progress)).collect();
        outcomes.push(beside.join().unwrap_or_else(|panic| resume_unwind(panic)));
        outcomes
    })
}

fn timed(name: &str, progress: &Progress, work: impl FnOnce() -> Result<()>) -> Outcome {
    // Nothing is begun while an interruption ends what there is.
    interruption::await_end();
    let begun = Instant::now();
    let result = match work() {
        Ok(()) => Verdict::Passed,
        Err(error) => {
            progress.say(&format!("{name}: {error:#}"));
            Verdict::Failed
        }
    };
    Outcome { name: name.to_owned(), result, took: begun.elapsed() }
}

fn summary(outcomes: &[Outcome], progress: &Progress) -> Result<()> {
    let mut failed = Vec::new();
    for Outcome { name, result, took } in outcomes {
        let took = format!("{:>6.1} s", took.as_secs_f64());
        progress.say(&match result {
            Verdict::Passed => format!("passed  {took}  {name}"),
            Verdict::Failed => format!("FAILED  {took}  {name}"),
            Verdict::NotRun(reason) => format!("not run           {name}: {reason}"),
        });
        if matches!(result, Verdict::Failed) {
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "failed: {}; what there is to see of tests on a cluster is in {EVIDENCE}",
        failed.join("; ")
    )
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
