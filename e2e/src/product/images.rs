//! The images that a trial needs, made here and loaded into the cluster: none comes from a registry.

pub(crate) mod for_benches;
pub mod for_tests;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use flux_contract::{Layout, invocation::AGENT_IN_IMAGE};
use flux_operator::images::VIEW_IMAGE;
use fs_err::File;

use super::{AGENT, OPERATOR, ORDINARY_USER, binaries::Binaries, install::Installation};
use crate::{
    cache::Cache,
    cluster::Cluster,
    images::{
        debian::debian,
        image::{Image, ImageConfig},
        layer::{Layer, Source},
        libraries::with_libraries,
    },
    progress::Progress,
};

/// The view image made of the stand-in.
const STAND_IN_VIEW: &str = "localhost/flux-e2e/stand-in-view:1";
/// The view image made of `FLUX_VIEW_ARCHIVE`.
const ARCHIVE_VIEW: &str = "localhost/flux-e2e/view:1";
/// Begin of the names of the published view images, which have the layout of Spack.
const PUBLISHED_VIEWS: &str = "ghcr.io/converged-computing/flux-view-";
/// The name that examples use for a plain operating system.
pub(crate) const OPERATING_SYSTEM: &str = "ubuntu:24.04";

/// Where Flux comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The stand-in of this project, which is not Flux.
    StandIn,
    /// An image that the cluster has or can pull (`FLUX_VIEW_IMAGE`).
    Image(String),
    /// A tar of a view, members rooted at `mnt/flux/view` (`FLUX_VIEW_ARCHIVE`).
    Archive(PathBuf),
}

impl View {
    /// What `FLUX_VIEW_IMAGE` and `FLUX_VIEW_ARCHIVE` say; the stand-in where neither is set.
    pub fn from_environment() -> Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match (set("FLUX_VIEW_IMAGE"), set("FLUX_VIEW_ARCHIVE")) {
            (Some(_), Some(_)) => bail!("set FLUX_VIEW_IMAGE or FLUX_VIEW_ARCHIVE, not both"),
            (Some(image), None) => Ok(Self::Image(image.to_string_lossy().into_owned())),
            (None, Some(archive)) => Ok(Self::Archive(archive.into())),
            (None, None) => Ok(Self::StandIn),
        }
    }

    /// Like [`View::from_environment`], but the published image instead of the stand-in where the
    /// cluster can have it.
    pub(crate) fn published_if_possible(cluster: &Cluster, progress: &Progress) -> Result<Self> {
        let view = Self::from_environment()?;
        if view != Self::StandIn {
            return Ok(view);
        }
        progress.say(&format!("trying to pull the published view image {VIEW_IMAGE} ..."));
        let pulled =
            cluster.pull_image(VIEW_IMAGE).and_then(|()| cluster.pull_image(OPERATING_SYSTEM));
        if pulled.is_ok() {
            return Ok(Self::Image(VIEW_IMAGE.to_owned()));
        }
        progress.say("it cannot be pulled from here");
        Ok(Self::StandIn)
    }

    /// One line that says which Flux runs.
    pub fn describe(&self) -> String {
        match self {
            Self::StandIn => "Flux: the stand-in of this project, not real Flux (set \
                              FLUX_VIEW_IMAGE or FLUX_VIEW_ARCHIVE to use a real one)"
                .to_owned(),
            Self::Image(image) => format!("Flux: the view image {image}"),
            // Without its place: results of measurements have this, and are for others, too.
            Self::Archive(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("Flux: the view archive {name}")
            }
        }
    }

    /// Whether it is Flux, and not the stand-in.
    pub fn is_real(&self) -> bool {
        *self != Self::StandIn
    }

    /// Whether it has Fluxion. An image of a registry cannot be looked into; it counts as complete.
    pub fn has_fluxion(&self) -> Result<bool> {
        match self {
            Self::StandIn => Ok(false),
            Self::Image(_) => Ok(true),
            Self::Archive(path) => holds(path, |name| name == "sched-fluxion-qmanager.so"),
        }
    }

    /// Whether it has the C library that it needs. The published images have none; another of a registry cannot be
    /// looked into, and counts as complete.
    pub fn has_c_library(&self) -> Result<bool> {
        match self {
            Self::StandIn => Ok(true),
            Self::Image(image) => Ok(!image.starts_with(PUBLISHED_VIEWS)),
            Self::Archive(path) => holds(path, |name| name.starts_with("ld-linux-")),
        }
    }

    /// Name of the view image in the cluster.
    pub fn image(&self) -> &str {
        match self {
            Self::StandIn => STAND_IN_VIEW,
            Self::Image(image) => image,
            Self::Archive(_) => ARCHIVE_VIEW,
        }
    }
}

/// Whether a file of such a name is in this archive of a view.
fn holds(archive: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<bool> {
    let look = || -> Result<bool> {
        for entry in tar::Archive::new(File::open(archive)?).entries_with_seek()? {
            let entry = entry?;
            let path = entry.path()?;
            if path.file_name().and_then(|name| name.to_str()).is_some_and(&is_wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    look().with_context(|| format!("reading the view archive {}", archive.display()))
}

/// Makes every image and loads it, under a published name only into a cluster of ours; returns how an
/// operator is installed that uses them.
pub(crate) fn load(
    cluster: &Cluster,
    binaries: &Binaries,
    view: &View,
    progress: &Progress,
) -> Result<Installation> {
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    let operator = operator(scratch.path(), binaries)?;
    let agent = agent(scratch.path(), binaries)?;
    // Names that belong to the contents alone: what was built anew is rolled out.
    let installation = Installation {
        operator_image: operator.content_name(),
        agent_image: agent.content_name(),
        view_image: view.image().to_owned(),
        install: None,
    };
    progress.step("loading the images of operator and agent", || {
        cluster.load_image(&operator, &[&installation.operator_image])?;
        cluster.load_image(&agent, &[&installation.agent_image])
    })?;
    match view_layer(view, scratch.path(), binaries)? {
        Some(layer) => progress.step("loading the view image", || {
            let image = Image::new(vec![layer], ImageConfig::default());
            cluster.load_image(&image, &[view.image()])
        })?,
        None => cluster.pull_image(view.image())?,
    }
    // The published view is made for the published operating system.
    if cluster.own().is_some() && view.image() != VIEW_IMAGE {
        load_operating_system(cluster, progress)?;
    }
    Ok(installation)
}

fn load_operating_system(cluster: &Cluster, progress: &Progress) -> Result<Image> {
    let system = debian(&Cache::locate()?, &[], progress)?;
    let what = format!("loading a Debian 12 made here, in the place of {OPERATING_SYSTEM}");
    progress.step(&what, || cluster.load_image(&system, &[OPERATING_SYSTEM]))?;
    Ok(system)
}

/// The operator's image: that of its Dockerfile where it is built; otherwise the operator with the libraries
/// of this machine, made in a second.
fn operator(scratch: &Path, binaries: &Binaries) -> Result<Image> {
    match &binaries.images {
        Some(images) => images.image(OPERATOR, &scratch.join("operator")),
        None => program(scratch, "/flux-operator", &binaries.operator, ORDINARY_USER),
    }
}

/// The agent's image: that of its Dockerfile where it is built; otherwise the same files, made in a second.
fn agent(scratch: &Path, binaries: &Binaries) -> Result<Image> {
    if let Some(images) = &binaries.images {
        return images.image(AGENT, &scratch.join("agent"));
    }
    let program = program(scratch, AGENT_IN_IMAGE, &binaries.agent, ORDINARY_USER)?;
    let beside = [
        Source::link(format!("/{}", Layout::CLIENT_NAME), Layout::AGENT_NAME),
        Source::file("/flux-view", &binaries.view_tool),
    ];
    let config = program.config().clone();
    Ok(program.on_top(Layer::from_sources(scratch, &beside)?, config))
}

/// An image that holds one program with its libraries, and starts it as `user`; without one, as root.
fn program(scratch: &Path, path: &str, from: &Path, user: &str) -> Result<Image> {
    let layer = Layer::from_sources(scratch, &with_libraries(path, from)?)?;
    let (entrypoint, user) = (vec![path.to_owned()], user.to_owned());
    Ok(Image::new(vec![layer], ImageConfig { entrypoint, user, ..ImageConfig::default() }))
}

/// Makes and loads such an image, for an ordinary user.
pub(crate) fn load_program(
    cluster: &Cluster,
    image: &str,
    path: &str,
    from: &Path,
    progress: &Progress,
) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for an image layer")?;
    progress.step(&format!("loading {image}"), || {
        cluster.load_image(&program(scratch.path(), path, from, ORDINARY_USER)?, &[image])
    })
}

/// The view's files, at the places where a view image has them; none where it is in a registry.
fn view_layer(view: &View, scratch: &Path, binaries: &Binaries) -> Result<Option<Layer>> {
    match view {
        View::Image(_) => Ok(None),
        View::StandIn => {
            // Real Flux runs its rc tasks with a shell, which a view has to bring where the image has none. The
            // stand-in only checks that one is there.
            let programs = ["flux", "bash"];
            let source = |it| Source::file(format!("/mnt/flux/view/bin/{it}"), &binaries.stand_in);
            Layer::from_sources(scratch, &programs.map(source)).map(Some)
        }
        View::Archive(path) => Layer::from_archive(path).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive_with(directory: &Path, member: &str) -> View {
        let path = directory.join("view.tar");
        let mut archive = tar::Builder::new(File::create(&path).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        let member = format!("mnt/flux/view/lib/{member}");
        archive.append_data(&mut header, member, std::io::empty()).unwrap();
        archive.finish().unwrap();
        View::Archive(path)
    }

    #[test]
    fn an_archive_has_what_one_of_its_files_is_called() {
        let directory = tempfile::tempdir().unwrap();
        for (member, fluxion, c_library) in [
            ("flux/modules/sched-simple.so", false, false),
            ("flux/modules/sched-fluxion-qmanager.so", true, false),
            ("ld-linux-x86-64.so.2", false, true),
        ] {
            let view = archive_with(directory.path(), member);
            assert_eq!(view.has_fluxion().unwrap(), fluxion, "{member}");
            assert_eq!(view.has_c_library().unwrap(), c_library, "{member}");
        }
    }

    #[test]
    fn a_description_does_not_name_the_place_of_an_archive() {
        let view = View::Archive("/a/view.tar".into());
        assert_eq!(view.describe(), "Flux: the view archive view.tar");
    }

    #[test]
    fn published_views_use_the_c_library_of_the_application() {
        let has = |image: &str| View::Image(image.to_owned()).has_c_library().unwrap();
        assert!(!has(VIEW_IMAGE) && !has("ghcr.io/converged-computing/flux-view-rocky:tag-9"));
        assert!(has("registry.example/flux-operator-rs-view:0.1.0"));
    }
}
