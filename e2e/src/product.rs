//! What is tested: the project's own binaries, their images, and their installation in a cluster.

pub mod binaries;
pub(crate) mod chart;
pub(crate) mod dockerfiles;
pub mod images;
pub mod install;
pub mod python;
pub mod view;

use crate::architecture::Architecture;
use crate::programs;
use crate::progress;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages whose programs go into images, and these programs.
pub(crate) const OPERATOR: &str = "flux-operator";
pub(crate) const AGENT: &str = "flux-agent";
pub(crate) const REST: &str = "flux-rest";
pub(crate) const VIEW_TOOL: &str = "flux-view";

/// `kubectl flux`, the package and its program.
pub(crate) const PLUGIN: &str = "kubectl-flux";

/// The user and group of the images that are shipped.
pub(crate) const ORDINARY_USER: &str = "65532:65532";

/// The name that examples use for a plain operating system.
pub const OPERATING_SYSTEM: &str = "ubuntu:24.04";

pub fn checkout() -> Result<PathBuf> {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(crate_directory.parent().context("finding the checkout above the e2e crate")?.to_owned())
}

/// The directory that cargo builds into.
pub(crate) fn target() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(checkout()?.join(named))
}

/// Cargo in this checkout with these arguments, as if called by hand. The variables that the outer cargo sets about its
/// own package are removed, because they would make build scripts run again.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    const OF_A_PACKAGE: [&str; 5] =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(checkout()?);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| OF_A_PACKAGE.iter().any(|of| name.starts_with(of))) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// The architecture of this machine, for which the project has to be built.
pub(crate) fn of_this_machine() -> Result<Architecture> {
    let other =
        || format!("nothing is built for this machine's architecture, {}", std::env::consts::ARCH);
    Architecture::of_this_machine().with_context(other)
}

/// The other architectures that images are built for.
pub(crate) fn other_architectures() -> impl Iterator<Item = Architecture> {
    Architecture::ALL.into_iter().filter(|it| Some(*it) != Architecture::of_this_machine())
}

/// Downloads the crates of every platform, which later steps read offline: a build downloads only those of its own
/// platform.
pub(crate) fn fetch_every_platform() -> Result<()> {
    progress::step("the crates of every platform are downloaded", || {
        programs::show(&mut cargo(&["fetch", "--locked", "--quiet"])?)
    })
}

pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let output = programs::run(command)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("reading what {} printed", command.get_program().display()))
}
