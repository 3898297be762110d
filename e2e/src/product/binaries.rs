//! The project's binaries, as they go into images.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{cargo, checkout};
use crate::{programs, progress::Progress};

/// Static binaries are built for this target explicitly: without one, the flag for static linking
/// would reach procedural macros, which cannot be static.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The agent is copied into every pod: it has no more bytes than this.
const AGENT_SIZE_LIMIT: u64 = 5_000_000;

/// Names the agent that the agent's own tests start instead of the one they are built with.
const AGENT_UNDER_TEST: &str = "FLUX_AGENT_UNDER_TEST";
/// Names the operator that tests start instead of one that is built for them.
pub(crate) const OPERATOR_UNDER_TEST: &str = "FLUX_OPERATOR_UNDER_TEST";

/// Where the built binaries are.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `flux-operator`, dynamic.
    pub operator: PathBuf,
    /// `flux-agent`, static.
    pub agent: PathBuf,
    /// The stand-in for `flux`, static.
    pub stand_in: PathBuf,
}

/// Where cargo puts what it builds.
fn target() -> Result<PathBuf> {
    let checkout = checkout()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| checkout.join("target"), |directory| checkout.join(directory)))
}

/// Builds the operator as it is released, and says where it is.
pub fn build_for_release(progress: &Progress) -> Result<PathBuf> {
    progress.long_step("building the operator as it is released", "5 min on 2 cores", || {
        let words = ["build", "--release", "--package", "flux-operator", "--bin", "flux-operator"];
        programs::show(&mut cargo(&words)?)
    })?;
    released_operator()
}

/// Where the operator is once it is built as it is released.
pub(crate) fn released_operator() -> Result<PathBuf> {
    Ok(target()?.join("release/flux-operator"))
}

/// Builds the agent, the stand-in, and the operator as tests have it, unless they are given one
/// (`FLUX_OPERATOR_UNDER_TEST`).
pub fn build(progress: &Progress) -> Result<Binaries> {
    let operator = operator_under_test(progress)?;
    with_operator(operator, progress)
}

/// Builds the agent, the stand-in, and the operator as it is released.
pub(crate) fn build_all_for_release(progress: &Progress) -> Result<Binaries> {
    let operator = build_for_release(progress)?;
    with_operator(operator, progress)
}

fn with_operator(operator: PathBuf, progress: &Progress) -> Result<Binaries> {
    let statics = build_static(progress)?;
    let (agent, stand_in) = (statics.join("flux-agent"), statics.join("flux-stand-in"));
    Ok(Binaries { operator, agent, stand_in })
}

fn operator_under_test(progress: &Progress) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(OPERATOR_UNDER_TEST).filter(|it| !it.is_empty()) {
        let named = checkout()?.join(named);
        ensure!(
            named.is_file(),
            "{OPERATOR_UNDER_TEST} names {}, which is no file",
            named.display()
        );
        return Ok(named);
    }
    progress.step("building the operator", || {
        programs::show(&mut cargo(&[
            "build",
            "--package",
            "flux-operator",
            "--bin",
            "flux-operator",
        ])?)
    })?;
    Ok(target()?.join("debug/flux-operator"))
}

/// Builds the agent, and says where it is.
pub fn build_agent(progress: &Progress) -> Result<PathBuf> {
    Ok(build_static(progress)?.join("flux-agent"))
}

/// Builds the agent and the stand-in, and says where they are.
fn build_static(progress: &Progress) -> Result<PathBuf> {
    progress.step("building the static agent and the stand-in Flux", || {
        programs::show(
            cargo(&["build", "--profile", "agent", "--target", TARGET])?
                .args(["--package", "flux-agent", "--package", "flux-stand-in"])
                .env("RUSTFLAGS", "-C target-feature=+crt-static"),
        )
    })?;
    Ok(target()?.join(TARGET).join("agent"))
}

/// Checks that the agent and the stand-in need no loader and no library, and that the agent is small.
pub fn check_static(binaries: &Binaries) -> Result<()> {
    for binary in [&binaries.agent, &binaries.stand_in] {
        let output = Command::new("ldd")
            .arg(binary)
            .output()
            .with_context(|| format!("asking ldd about {}", binary.display()))?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(
            said.contains("statically linked") || said.contains("not a dynamic executable"),
            "{} is not static; ldd says: {said}",
            binary.display()
        );
    }
    let size = std::fs::metadata(&binaries.agent)
        .with_context(|| format!("looking at {}", binaries.agent.display()))?
        .len();
    ensure!(
        size <= AGENT_SIZE_LIMIT,
        "the agent has {size} bytes, more than the {AGENT_SIZE_LIMIT} it may have"
    );
    Ok(())
}

/// Measures what the agent costs a pod. One test at a time: what one child takes is not told from what
/// another does.
pub fn check_agent_budgets(binaries: &Binaries) -> Result<()> {
    let words = ["test", "--workspace", "--test", "budgets", "--"];
    let mut measured = cargo(&words)?;
    measured.args(["--ignored", "--nocapture", "--test-threads=1"]);
    programs::show(measured.env(AGENT_UNDER_TEST, &binaries.agent))
}

/// Measures the operator's memory, which has to be the released one: others are larger.
pub fn check_operator_memory(binaries: &Binaries) -> Result<()> {
    let mut measured = cargo(&["test", "--workspace", "--test", "footprint", "--", "--nocapture"])?;
    programs::show(measured.env(OPERATOR_UNDER_TEST, &binaries.operator))
}

/// Checks that no Kubernetes crate has found its way into the agent.
pub fn check_agent_dependencies() -> Result<()> {
    let words = ["tree", "--package", "flux-agent", "--edges", "normal", "--prefix", "none"];
    let output = programs::run(&mut cargo(&words)?)?;
    let tree = String::from_utf8_lossy(&output.stdout);
    let unwanted: Vec<&str> =
        tree.lines().filter(|line| line.starts_with("kube") || line.starts_with("k8s-")).collect();
    ensure!(unwanted.is_empty(), "the agent depends on {unwanted:?}; it must not know Kubernetes");
    Ok(())
}
