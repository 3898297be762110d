//! Images that only tests and examples name: made here in the place of published ones of the same use.

use super::{Binaries, View, mpi_program};
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::images::debian::{Recipe, Release, debian};
use crate::images::image::{Image, ImageConfig};
use crate::images::layer::{Layer, Source};
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result};
use flux_api::images::VIEW_IMAGE;
use std::path::Path;

/// A web server, started by the image's own entrypoint, and curl. Made of Debian's packages.
const WEB_SERVER: &str = "nginx:1";
/// The packages of both images that are more than an operating system.
const PACKAGES: [&str; 3] = ["curl", "munge", "nginx"];
/// An operating system with its own Flux, and munge. Made of a Debian and the view.
const WITH_FLUX: &str = "fluxrm/flux-sched:jammy";
/// The image of the example `mpi`: made of the packages that its `Dockerfile` names, and of its source.
const MPI: &str = "mpi-example:1";
/// Images of examples, of packages alone, as their `Dockerfile`s have them.
const OF_EXAMPLES: [(&str, Release, &[&str]); 3] = [
    ("lammps-example:1", Release::Bookworm, &["lammps", "lammps-examples"]),
    ("mpi4py-example:1", Release::Bookworm, &["python3-mpi4py"]),
    ("open-mpi-example:1", Release::Trixie, &["hpcc"]),
];
/// An image without a shell. The one made here has one program, which no example uses.
const DISTROLESS: &str = "gcr.io/distroless/static-debian12:latest";

/// The view as the published images have it: a directory of links, behind a hash, into a tree of packages.
pub const SPACK_VIEW: &str = "localhost/flux-e2e/spack-view:1";

/// An operating system that is stopped as Apache's image is.
pub const STOPPED_BY_SIGWINCH: &str = "localhost/flux-e2e/stopped-by-sigwinch:1";

/// Makes and loads these images into a cluster of ours. Other clusters pull them from their registries, and so does a
/// cluster of ours with the image with Flux if the view is in a registry.
pub(crate) fn load(cluster: &Cluster, binaries: &Binaries, view: &View) -> Result<()> {
    if cluster.own().is_none() {
        return Ok(());
    }
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    packages::ensure(packages::STATIC_PROGRAM)?;
    let busybox = programs::find("busybox").context("looking for busybox in PATH")?;
    let busybox = Layer::from_sources(scratch.path(), &[Source::file("/bin/busybox", &busybox)])?;
    cluster.load_image(&Image::new(vec![busybox], ImageConfig::default()), &[DISTROLESS])?;
    let load = |what: &str, image: &Image, name: &str| {
        progress::step(&format!("loading {what} {name}"), || cluster.load_image(image, &[name]))
    };
    let system = debian(&Cache::locate()?, &PACKAGES)?;
    let mut stopped = system.clone();
    "SIGWINCH".clone_into(&mut stopped.config.stop_signal);
    cluster.load_image(&stopped, &[STOPPED_BY_SIGWINCH])?;
    let web_server = web_server(&system, scratch.path())?;
    load("Debian's nginx, in the place of", &web_server, WEB_SERVER)?;
    if view.is_real() {
        // As in the `Dockerfile` of the example, which has the reason against Debian 12.
        let mpi = mpi_program(Release::Trixie, &["libmpich12"], "libmpich-dev")?;
        load("Debian's MPICH with a program, as", &mpi, MPI)?;
        for (name, release, packages) in OF_EXAMPLES {
            let recipe = Recipe { release, packages, program: None };
            load("packages of Debian, as", &recipe.image(&Cache::locate()?)?, name)?;
        }
    }
    let Some(flux) = view.layer(scratch.path(), binaries)? else {
        return cluster.pull_image(WITH_FLUX);
    };
    let only_flux = Image::new(vec![flux.clone()], ImageConfig::default());
    load("the view of the tests, in the place of", &only_flux, VIEW_IMAGE)?;
    cluster.load_image(&spack_view(flux.clone(), scratch.path())?, &[SPACK_VIEW])?;
    let with_flux = with_flux(&system, flux, scratch.path())?;
    load("a Debian with Flux, in the place of", &with_flux, WITH_FLUX)
}

/// Makes the file systems of the images that every run of the tests on clusters needs.
pub(crate) fn make_file_systems(cache: &Cache) -> Result<()> {
    debian(cache, &[])?;
    debian(cache, &PACKAGES)?;
    Ok(())
}

fn web_server(debian: &Image, scratch: &Path) -> Result<Image> {
    // As in the published image: the server writes to the container's log.
    let logs = ["access", "error"]
        .map(|log| Source::link(format!("/var/log/nginx/{log}.log"), "/dev/stdout"));
    let mut image = debian.clone().on_top(Layer::from_sources(scratch, &logs)?);
    image.config.entrypoint = ["nginx", "-g", "daemon off;"].map(str::to_owned).to_vec();
    image.config.command = vec![];
    Ok(image)
}

/// The flat view with the names of a Spack view. All of its links are absolute, as Spack makes them: where the image is
/// mounted they would lead out of it, so the agent has to resolve them.
fn spack_view(flat: Layer, scratch: &Path) -> Result<Image> {
    let package = "/opt/software/linux-x86_64/flux-core-4f2xy";
    let hash = "/opt/views/._view/4f2xy";
    let directories = ["etc", "include", "lib", "lib64", "libexec", "sbin", "share", "var"];
    let parts = directories.iter().chain(&["bin/flux", "bin/bash", "bin/python3"]);
    let links = parts.map(|it| Source::link(format!("{hash}/{it}"), format!("{package}/{it}")));
    let named = [Source::link(package, "../../../mnt/flux/view"), Source::link("/opt/view", hash)];
    let links = Layer::from_sources(scratch, &links.chain(named).collect::<Vec<_>>())?;
    Ok(Image::new(vec![flat, links], ImageConfig::default()))
}

fn with_flux(debian: &Image, flux: Layer, scratch: &Path) -> Result<Image> {
    let link = Source::link("/usr/bin/flux", "/mnt/flux/view/bin/flux");
    let link = Layer::from_sources(scratch, &[link])?;
    Ok(debian.clone().on_top(flux).on_top(link))
}
