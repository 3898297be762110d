//! The project's binaries, as they go into images.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{
    cargo, checkout,
    dockerfiles::{self, Images},
    of_this_machine, printed,
};
use crate::{images::libraries::with_libraries, programs, progress::Progress};

/// The agent is copied into every pod: it has no more bytes than this.
const AGENT_SIZE_LIMIT: u64 = 5_000_000;
/// The program that packs views is in the agent's image, which every node keeps.
const VIEW_TOOL_SIZE_LIMIT: u64 = 2_000_000;

/// The packages, and their programs.
pub(crate) const OPERATOR: &str = "flux-operator";
pub(crate) const AGENT: &str = "flux-agent";
pub(crate) const VIEW_TOOL: &str = "flux-view";
const STAND_IN: &str = "flux-stand-in";

/// Names the agent that the agent's own tests start instead of the one they are built with.
pub(crate) const AGENT_UNDER_TEST: &str = "FLUX_AGENT_UNDER_TEST";
/// Names the operator whose memory is measured.
const OPERATOR_UNDER_TEST: &str = "FLUX_OPERATOR_UNDER_TEST";
/// Names the directory of [`Images`] that tests on a cluster use, instead of images made in a hurry.
pub(crate) const IMAGES: &str = "FLUX_E2E_IMAGES";

/// Where the built programs are: the operator is dynamic, the others are static.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    pub(crate) operator: PathBuf,
    pub(crate) agent: PathBuf,
    pub(crate) view_tool: PathBuf,
    pub(crate) stand_in: PathBuf,
    /// The images that operator and agent are from, if they are from any.
    pub(crate) images: Option<Images>,
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> Result<PathBuf> {
    let checkout = checkout()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| checkout.join("target"), |directory| checkout.join(directory)))
}

/// Operator and agent as they are shipped, and the stand-in.
pub(crate) fn build_shipped(progress: &Progress) -> Result<Binaries> {
    of_images(dockerfiles::build(&[of_this_machine()?], progress)?, progress)
}

/// Builds operator, agent and stand-in; the first two are taken from images that are built already where
/// `FLUX_E2E_IMAGES` names them.
pub(crate) fn build(progress: &Progress) -> Result<Binaries> {
    let named = std::env::var_os(IMAGES).filter(|it| !it.is_empty());
    if let Some(named) = named {
        return of_images(Images::at(checkout()?.join(named)), progress);
    }
    progress.step("building the operator", || {
        programs::show(&mut cargo(&["build", "--package", OPERATOR, "--bin", OPERATOR])?)
    })?;
    let operator = target()?.join("debug").join(OPERATOR);
    let statics = build_static(&[AGENT, VIEW_TOOL, STAND_IN], progress)?;
    let [agent, view_tool, stand_in] = [AGENT, VIEW_TOOL, STAND_IN].map(|it| statics.join(it));
    Ok(Binaries { operator, agent, view_tool, stand_in, images: None })
}

/// Operator and agent of images, and the stand-in.
pub(crate) fn of_images(images: Images, progress: &Progress) -> Result<Binaries> {
    let here = of_this_machine()?;
    let [operator, agent, view_tool] =
        [OPERATOR, AGENT, VIEW_TOOL].map(|it| images.program(it, here));
    for program in [&operator, &agent, &view_tool] {
        ensure!(
            program.is_file(),
            "there is no {}: `cargo e2e images` makes it",
            program.display()
        );
    }
    let stand_in = build_static(&[STAND_IN], progress)?.join(STAND_IN);
    Ok(Binaries { operator, agent, view_tool, stand_in, images: Some(images) })
}

/// Builds packages whose programs have to run in any image, and says where these are.
fn build_static(packages: &[&str], progress: &Progress) -> Result<PathBuf> {
    let here = of_this_machine()?.target();
    progress.step(&format!("building static: {}", packages.join(", ")), || {
        programs::show(
            // For a target that is named: otherwise procedural macros, which cannot be, would be static too.
            cargo(&["build", "--profile", "agent", "--target", here])?
                .args(packages.iter().flat_map(|package| ["--package", package]))
                .env("RUSTFLAGS", "-C target-feature=+crt-static"),
        )
    })?;
    Ok(target()?.join(here).join("agent"))
}

/// Checks that the programs built static need no loader and no library, and that those of the agent's image are
/// small.
pub(crate) fn check_static(binaries: &Binaries) -> Result<()> {
    for program in [&binaries.agent, &binaries.view_tool, &binaries.stand_in] {
        let files = with_libraries("/program", program)?;
        ensure!(files.len() == 1, "{} is not static; it needs {files:?}", program.display());
    }
    for (program, limit) in
        [(&binaries.agent, AGENT_SIZE_LIMIT), (&binaries.view_tool, VIEW_TOOL_SIZE_LIMIT)]
    {
        let name = program.display();
        let found = fs::metadata(program).with_context(|| format!("looking at {name}"))?.len();
        ensure!(found <= limit, "{name} has {found} bytes, more than the {limit} it may have");
    }
    Ok(())
}

/// Measures what the agent costs a pod. One test at a time: what one child takes is not told from what
/// another does.
pub(crate) fn check_agent_budgets(binaries: &Binaries) -> Result<()> {
    let words = ["test", "--workspace", "--test", "budgets", "--"];
    let mut measured = cargo(&words)?;
    measured.args(["--ignored", "--nocapture", "--test-threads=1"]);
    programs::show(measured.env(AGENT_UNDER_TEST, &binaries.agent))
}

/// Measures the operator's memory, which has to be the released one: others are larger.
pub(crate) fn check_operator_memory(binaries: &Binaries) -> Result<()> {
    let mut measured = cargo(&["test", "--workspace", "--test", "footprint", "--", "--nocapture"])?;
    programs::show(measured.env(OPERATOR_UNDER_TEST, &binaries.operator))
}

/// Checks that no Kubernetes crate has found its way into the agent.
pub(crate) fn check_agent_dependencies() -> Result<()> {
    let words = ["tree", "--package", "flux-agent", "--edges", "normal", "--prefix", "none"];
    let tree = printed(&mut cargo(&words)?)?;
    let unwanted: Vec<&str> =
        tree.lines().filter(|line| line.starts_with("kube") || line.starts_with("k8s-")).collect();
    ensure!(unwanted.is_empty(), "the agent depends on {unwanted:?}; it must not know Kubernetes");
    Ok(())
}
