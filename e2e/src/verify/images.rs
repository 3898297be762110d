//! The images that are shipped, and the programs in them: operator and agent are small, and the agent for other
//! architectures is the same program.

use super::changes::{IMAGES, key_of};
use super::report::{ONLY_ALL, Report};
use crate::architecture::Architecture;
use crate::images::libraries::with_libraries;
use crate::product::binaries::{self, Binaries};
use crate::product::dockerfiles::{self, Images};
use crate::product::{AGENT, cargo, checkout, of_this_machine, other_architectures};
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result, ensure};
use fs_err as fs;
use std::process::Command;

/// The most bytes of the agent, which is copied into every pod.
const AGENT_SIZE_LIMIT: u64 = 4_500_000;
/// The most bytes of the program that serves the API of an instance, which is copied as well.
const REST_SIZE_LIMIT: u64 = 3_500_000;
/// The most bytes of the program that packs views: it is in the agent's image, which every node keeps.
const VIEW_TOOL_SIZE_LIMIT: u64 = 2_000_000;

/// The variable that names the agent that the agent's own tests start, instead of the one they are built with.
const AGENT_UNDER_TEST: &str = "FLUX_AGENT_UNDER_TEST";
/// The variable that names the operator whose memory a test measures.
const OPERATOR_UNDER_TEST: &str = "FLUX_OPERATOR_UNDER_TEST";

/// The agent's tests that run under emulation: whole runs as PID 1, and every subcommand. Tests that start a run as
/// another process need a child subreaper, which qemu's user emulation lacks. Tests that change to other users skip
/// themselves, because the user namespace has one user only.
const EMULATED_TESTS: [&str; 2] = ["first_process::", "subcommands::"];

/// Registers an emulator for programs of another architecture, in namespaces of this command alone. Needs Linux 6.7,
/// which gave each user namespace a table of its own.
const REGISTER: &str = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc\n\
                        cat \"$0\" > /proc/sys/fs/binfmt_misc/register\n\
                        exec \"$@\"";

/// The file with a hash of the [`IMAGES`] files whose images have passed these checks. It is committed: a fresh clone does
/// not build again what was checked before.
const CHECKED: &str = "e2e/src/verify/images_checked.txt";

/// Builds the images that are shipped if a change can have broken their build or their size; the tests on a cluster use
/// them then. Images for other architectures are built with `all` only.
pub(super) fn build(report: &Report, all: bool) -> Option<Images> {
    const NAME: &str = "images that are shipped";
    if !all && are_checked().unwrap_or_default() {
        let reason =
            format!("their files are those of the last check ({CHECKED}); `--all` runs it");
        report.not_run(NAME, &reason);
        return None;
    }
    if !nix::unistd::geteuid().is_root() {
        let reason =
            "building them needs root; tests on a cluster use images made without Dockerfiles";
        report.not_run(NAME, reason);
        return None;
    }
    let mut built = None;
    report.check(NAME, || {
        let architectures = if all { &Architecture::ALL[..] } else { &[of_this_machine()?] };
        built = Some(dockerfiles::build(architectures)?);
        Ok(())
    });
    built
}

fn are_checked() -> Result<bool> {
    let checked = fs::read_to_string(checkout()?.join(CHECKED))?;
    Ok(checked.trim_end() == key_of(IMAGES)?)
}

/// Records that the images of this checkout have passed.
pub(super) fn record() -> Result<()> {
    if !are_checked().unwrap_or_default() {
        fs::write(checkout()?.join(CHECKED), key_of(IMAGES)? + "\n")?;
        progress::log(&format!("the images have passed: commit {CHECKED}, which has changed"));
    }
    Ok(())
}

/// Checks what is in the images.
pub(super) fn check(report: &Report, images: &Images, all: bool) {
    const OTHERS: &str = "images and agent for the other architecture";
    report.check("operator and agent of the images: small", || {
        check_programs(&binaries::of_images(images.clone())?)
    });
    if all {
        report.check(OTHERS, || {
            packages::ensure(packages::EMULATOR)?;
            other_architectures().try_for_each(|architecture| emulate(images, architecture))
        });
    } else {
        report.not_run(OTHERS, ONLY_ALL);
    }
}

fn check_programs(binaries: &Binaries) -> Result<()> {
    let Binaries { operator, agent, rest, view_tool, stand_in, .. } = binaries;
    for program in [agent, rest, view_tool, stand_in] {
        let files = with_libraries("/program", program)?;
        ensure!(files.len() == 1, "{} is not static; it needs {files:?}", program.display());
    }
    for (program, limit) in
        [(agent, AGENT_SIZE_LIMIT), (rest, REST_SIZE_LIMIT), (view_tool, VIEW_TOOL_SIZE_LIMIT)]
    {
        let (name, found) = (program.display(), fs::metadata(program)?.len());
        ensure!(found <= limit, "{name} has {found} bytes, more than the {limit} it may have");
    }
    // What the agent costs a pod. One test at a time: the kernel counts the children of the tests together.
    let mut budgets = cargo(&["test", "--test", "budgets", "--"])?;
    budgets.args(["--ignored", "--nocapture", "--test-threads=1"]);
    programs::show(budgets.env(AGENT_UNDER_TEST, agent))?;
    // The memory of the operator that is shipped: a build without optimisation is larger.
    let mut memory = cargo(&["test", "--test", "footprint", "--"])?;
    memory.args(["--ignored", "--nocapture"]);
    programs::show(memory.env(OPERATOR_UNDER_TEST, operator))
}

/// Runs [`EMULATED_TESTS`] with the agent for this architecture instead of the one they are built with.
fn emulate(images: &Images, architecture: Architecture) -> Result<()> {
    let agent = images.program(AGENT, architecture);
    let kind = programs::run(Command::new(architecture.emulator()).arg(&agent).arg("--version"))?;
    ensure!(!kind.stdout.is_empty(), "{} has not printed its version", agent.display());
    let mut command = cargo(&["test", "--no-fail-fast", "--test", "it", "--"])?;
    command.args(EMULATED_TESTS).env(AGENT_UNDER_TEST, &agent);
    let mut namespaces = Command::new("unshare");
    namespaces.args(["--user", "--map-root-user", "--mount", "sh", "-ec", REGISTER]);
    namespaces.arg(format!("/usr/lib/binfmt.d/qemu-{}.conf", architecture.name));
    programs::show(&mut programs::within(namespaces, &command))
        .with_context(|| format!("running the agent for {}", architecture.name))
}
