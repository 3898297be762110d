//! Packages of Python, for programs of tests and for images.

use crate::cache::{self, Cache};
use crate::programs;
use anyhow::{Context as _, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with the packages that the file `requirements` names and what they need, for this machine's Python.
/// They come from the network, once.
pub fn packages(requirements: &Path) -> Result<PathBuf> {
    let wanted = fs::read(requirements)?;
    let version = version()?;
    let key = cache::key("python-packages", &version, &[("packages", &wanted)]);
    Cache::locate()?.artefact(&key, |directory| {
        let mut pip = python(&["-m", "pip", "install", "--quiet", "--no-compile", "--target"]);
        programs::run(pip.arg(directory).arg("--requirement").arg(requirements))?;
        // Files in an image have no times, so the compiled files must not depend on those of the sources.
        let mode = "--invalidation-mode=unchecked-hash";
        programs::run(python(&["-m", "compileall", "-q", mode]).arg(directory)).map(drop)
    })
}

/// As `3.11`.
pub(crate) fn version() -> Result<String> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let version = super::printed(&mut python(&["-c", script]));
    Ok(version.context("asking this machine's Python for its version")?.trim().to_owned())
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}
