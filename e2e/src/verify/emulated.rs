//! The agent for other architectures: its own tests, with that agent instead of the one they are built with.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{
    architecture::Architecture,
    packages,
    product::{
        binaries::{AGENT, AGENT_UNDER_TEST},
        cargo,
        dockerfiles::Images,
    },
    programs,
    progress::Progress,
};

/// The agent's tests that start it: whole runs as PID 1, and every subcommand. Those that start a run as another
/// process need a child subreaper, which qemu's user emulation does not know; those that change to other users
/// say that they are skipped, as the user namespace has one.
const TESTS: [&str; 6] = ["first_process", "plan", "probe", "readiness", "status", "subcommands"];

/// Tells the kernel, in namespaces of this command alone, to run programs of another architecture by an emulator.
/// Needs Linux 6.7, which made the kernel's table one of the user namespace.
const REGISTER: &str = "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc\n\
                        cat \"$0\" > /proc/sys/fs/binfmt_misc/register\n\
                        exec \"$@\"";

/// Runs them for every architecture but this machine's.
pub(super) fn check(images: &Images, progress: &Progress) -> Result<()> {
    packages::ensure(packages::EMULATOR, progress)?;
    for architecture in Architecture::ALL {
        if Some(architecture) != Architecture::of_this_machine() {
            check_one(images, architecture)
                .with_context(|| format!("running the agent for {}", architecture.name()))?;
        }
    }
    Ok(())
}

fn check_one(images: &Images, architecture: Architecture) -> Result<()> {
    let agent = images.program(AGENT, architecture);
    let kind = programs::run(Command::new(architecture.emulator()).arg(&agent).arg("--version"))?;
    ensure!(!kind.stdout.is_empty(), "{} has not said its version", agent.display());
    let tests = TESTS.iter().flat_map(|test| ["--test", test]);
    // Of the whole workspace: its tests are built already.
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"])?;
    command.args(tests).env(AGENT_UNDER_TEST, &agent);
    let mut namespaces = Command::new("unshare");
    namespaces.args(["--user", "--map-root-user", "--mount", "sh", "-ec", REGISTER]);
    namespaces.arg(format!("/usr/lib/binfmt.d/qemu-{}.conf", architecture.name()));
    programs::show(&mut programs::within(namespaces, &command))
}
