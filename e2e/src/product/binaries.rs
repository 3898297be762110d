//! The project's programs for the images.

use super::dockerfiles::{self, Images};
use super::{AGENT, OPERATOR, PLUGIN, REST, VIEW_TOOL, cargo, checkout, of_this_machine, target};
use crate::programs;
use crate::progress;
use anyhow::{Result, ensure};
use std::ffi::OsString;
use std::path::PathBuf;

const STAND_IN: &str = "flux-stand-in";

/// The variable that names a directory of [`Images`]: tests on a cluster use these instead of images without Dockerfiles.
pub(crate) const IMAGES: &str = "FLUX_E2E_IMAGES";

/// The profile of programs that run in any image.
const STATIC: &str = "tested";

/// Where the built programs are: the operator is dynamic, the others are static.
#[derive(Debug, Clone)]
pub struct Binaries {
    pub operator: PathBuf,
    pub(crate) agent: PathBuf,
    pub(crate) rest: PathBuf,
    pub(crate) view_tool: PathBuf,
    pub(crate) stand_in: PathBuf,
    /// The images that operator and agent are from, if they are from any.
    pub(crate) images: Option<Images>,
}

/// Operator and agent as they are shipped, and the stand-in.
pub fn build_shipped() -> Result<Binaries> {
    of_images(dockerfiles::build(&[of_this_machine()?])?)
}

/// Builds the agent as tests have it, or takes it from images as [`build`] does.
pub fn build_agent() -> Result<PathBuf> {
    match named_images() {
        Some(named) => Ok(of_images(Images { directory: checkout()?.join(named) })?.agent),
        None => Ok(build_static(&[AGENT])?.join(AGENT)),
    }
}

/// Builds operator, agent and stand-in; the first two are taken from images that are built already where
/// `FLUX_E2E_IMAGES` names them.
pub(crate) fn build() -> Result<Binaries> {
    if let Some(named) = named_images() {
        return of_images(Images { directory: checkout()?.join(named) });
    }
    let names = [AGENT, REST, VIEW_TOOL, STAND_IN];
    let directory = build_static(&names)?;
    let [agent, rest, view_tool, stand_in] = names.map(|name| directory.join(name));
    let operator = build_dynamic(&[OPERATOR, PLUGIN])?.join(OPERATOR);
    Ok(Binaries { operator, agent, rest, view_tool, stand_in, images: None })
}

/// Operator and agent of images, and the stand-in.
pub(crate) fn of_images(images: Images) -> Result<Binaries> {
    let here = of_this_machine()?;
    let [operator, agent, rest, view_tool] =
        [OPERATOR, AGENT, REST, VIEW_TOOL].map(|it| images.program(it, here));
    for program in [&operator, &agent, &rest, &view_tool] {
        let path = program.display();
        ensure!(program.is_file(), "there is no {path}: `cargo e2e images` makes it");
    }
    let stand_in = if named_images().is_some() {
        // As it is released, which takes minutes: a demo does without.
        build_static(&[STAND_IN, PLUGIN])?.join(STAND_IN)
    } else {
        build_dynamic(&[PLUGIN])?;
        build_static(&[STAND_IN])?.join(STAND_IN)
    };
    Ok(Binaries { operator, agent, rest, view_tool, stand_in, images: Some(images) })
}

fn named_images() -> Option<OsString> {
    std::env::var_os(IMAGES).filter(|it| !it.is_empty())
}

/// Where [`build`] puts `kubectl flux`.
pub(crate) fn plugin() -> Result<PathBuf> {
    let is_static = named_images().is_some();
    let directory = if is_static { static_directory()? } else { target()?.join("debug") };
    Ok(directory.join(PLUGIN))
}

fn static_directory() -> Result<PathBuf> {
    Ok(target()?.join(of_this_machine()?.target).join(STATIC))
}

/// Builds programs that run on this machine, of the crates that their tests have built, and returns their directory.
fn build_dynamic(names: &[&str]) -> Result<PathBuf> {
    progress::step(&format!("building {}", names.join(", ")), || {
        programs::show(cargo(&["build"])?.args(names.iter().flat_map(|name| ["--bin", name])))
    })?;
    Ok(target()?.join("debug"))
}

/// Builds packages whose programs have to run in any image, in one build, and returns the directory of the programs.
fn build_static(packages: &[&str]) -> Result<PathBuf> {
    let here = of_this_machine()?.target;
    progress::step(&format!("building static: {}", packages.join(", ")), || {
        programs::show(
            // With a named target RUSTFLAGS do not apply to procedural macros, which cannot be static.
            cargo(&["build", "--profile", STATIC, "--target", here])?
                .args(packages.iter().flat_map(|package| ["--package", package]))
                .env("RUSTFLAGS", "-C target-feature=+crt-static"),
        )
    })?;
    static_directory()
}
