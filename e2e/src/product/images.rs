//! The images that a trial needs, made here and loaded into the cluster: none comes from a registry.

pub mod for_tests;
pub(crate) mod for_workflows;

use super::binaries::Binaries;
use super::install::Installation;
use super::view::View;
use super::{AGENT, OPERATING_SYSTEM, OPERATOR, ORDINARY_USER, REST, checkout};
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::images::debian::{Program, Recipe, Release, debian};
use crate::images::image::{Image, ImageConfig};
use crate::images::layer::{Layer, Source};
use crate::images::libraries::with_libraries;
use crate::{programs, progress};
use anyhow::{Context as _, Result};
use flux_api::images::VIEW_IMAGE;
use flux_contract::Layout;
use flux_contract::invocation::AGENT_IN_IMAGE;
use std::path::Path;
use std::process::Command;

/// A view of another release than that of the tests.
const OTHER_VIEW: &str = "localhost/flux-e2e/view-of-another-release:1";

/// Makes every image and loads it, under a published name only into a cluster of ours; returns how an
/// operator is installed that uses them.
pub(crate) fn load(cluster: &Cluster, binaries: &Binaries, view: &View) -> Result<Installation> {
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    let operator = operator(scratch.path(), binaries)?;
    let agent = agent(scratch.path(), binaries)?;
    // The names are hashes of the contents, so that the Deployment rolls out changed images.
    let installation = Installation {
        operator_image: operator.content_name(),
        agent_image: agent.content_name(),
        view_image: view.image().to_owned(),
        install: None,
    };
    progress::step("loading the images of operator and agent", || {
        cluster.load_image(&operator, &[&installation.operator_image])?;
        cluster.load_image(&agent, &[&installation.agent_image])
    })?;
    match view.layer(scratch.path(), binaries)? {
        Some(layer) => progress::step("loading the view image", || {
            let image = Image::new(vec![layer], ImageConfig::default());
            cluster.load_image(&image, &[view.image()])
        })?,
        None => cluster.pull_image(view.image())?,
    }
    // The published view is made for the published operating system.
    if cluster.own().is_some() && view.image() != VIEW_IMAGE {
        load_operating_system(cluster)?;
    }
    Ok(installation)
}

/// Loads a view of another release, and returns its name: with real Flux that of the archive that
/// `FLUX_OTHER_VIEW_ARCHIVE` names, if it names one.
pub(crate) fn load_another_release(
    cluster: &Cluster,
    binaries: &Binaries,
) -> Result<Option<&'static str>> {
    let scratch = tempfile::tempdir().context("making a directory for an image layer")?;
    let archive = std::env::var_os("FLUX_OTHER_VIEW_ARCHIVE").filter(|value| !value.is_empty());
    let layer = if View::from_environment()?.is_real() {
        let Some(archive) = archive else { return Ok(None) };
        View::Archive(archive.into()).layer(scratch.path(), binaries)?
    } else {
        let stand_in = scratch.path().join("flux");
        let mut copy = Command::new(&binaries.stand_in);
        programs::run(copy.args(["--release", "0.84.0"]).arg(&stand_in))?;
        View::StandIn.layer(scratch.path(), &Binaries { stand_in, ..binaries.clone() })?
    };
    let image = Image::new(layer.into_iter().collect(), ImageConfig::default());
    cluster.load_image(&image, &[OTHER_VIEW])?;
    Ok(Some(OTHER_VIEW))
}

/// Loads the plain operating system of the examples.
pub fn load_operating_system(cluster: &Cluster) -> Result<Image> {
    let system = debian(&Cache::locate()?, &[])?;
    let what = format!("loading a Debian 12 made here, in the place of {OPERATING_SYSTEM}");
    progress::step(&what, || cluster.load_image(&system, &[OPERATING_SYSTEM]))?;
    Ok(system)
}

/// A Debian with these packages and the program of the example `mpi`, compiled by the package `compiler`.
pub fn mpi_program(release: Release, packages: &[&str], compiler: &str) -> Result<Image> {
    let program = Program {
        source: &checkout()?.join("examples/mpi/sum.c"),
        compile: "mpicc -O2 -o /usr/local/bin/mpi-sum -x c -",
        tools: &["gcc", "libc6-dev", compiler],
    };
    Recipe { release, packages, program: Some(program) }.image(&Cache::locate()?)
}

/// The operator's image: from its Dockerfile if that was built, else the operator with the libraries of this machine,
/// which takes a second.
fn operator(scratch: &Path, binaries: &Binaries) -> Result<Image> {
    match &binaries.images {
        Some(images) => images.image(OPERATOR, &scratch.join("operator")),
        None => program(scratch, "/flux-operator", &binaries.operator, &[]),
    }
}

/// The agent's image: from its Dockerfile if that was built, else the same files, which takes a second.
pub fn agent(scratch: &Path, binaries: &Binaries) -> Result<Image> {
    if let Some(images) = &binaries.images {
        return images.image(AGENT, &scratch.join("agent"));
    }
    let beside = [
        Source::link(format!("/{}", Layout::CLIENT_NAME), Layout::AGENT_NAME),
        Source::file(format!("/{REST}"), &binaries.rest),
        Source::file("/flux-view", &binaries.view_tool),
    ];
    program(scratch, AGENT_IN_IMAGE, &binaries.agent, &beside)
}

/// An image with one program, its libraries and the files `beside` it; the image starts the program as an ordinary user.
fn program(scratch: &Path, path: &str, from: &Path, beside: &[Source]) -> Result<Image> {
    let files = [&with_libraries(path, from)?[..], beside].concat();
    let (entrypoint, user) = (vec![path.to_owned()], ORDINARY_USER.to_owned());
    let config = ImageConfig { entrypoint, user, ..ImageConfig::default() };
    Ok(Image::new(vec![Layer::from_sources(scratch, &files)?], config))
}

/// Makes and loads such an image.
pub(crate) fn load_program(cluster: &Cluster, image: &str, path: &str, from: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for an image layer")?;
    progress::step(&format!("loading {image}"), || {
        cluster.load_image(&program(scratch.path(), path, from, &[])?, &[image])
    })
}
