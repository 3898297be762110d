//! The Flux of the tests: real Flux, or the stand-in.

use super::OPERATING_SYSTEM;
use super::binaries::Binaries;
use crate::cluster::Cluster;
use crate::images::layer::{Layer, Source};
use crate::progress;
use anyhow::{Context as _, Result, bail};
use flux_api::images::VIEW_IMAGE;
use fs_err::File;
use std::path::{Path, PathBuf};

const STAND_IN_VIEW: &str = "localhost/flux-e2e/stand-in-view:1";
const ARCHIVE_VIEW: &str = "localhost/flux-e2e/view:1";
/// Begin of the names of the published view images, which have the layout of Spack.
const PUBLISHED_VIEWS: &str = "ghcr.io/converged-computing/flux-view-";
/// A Flux for the pods.
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
    /// The view that `FLUX_VIEW_IMAGE` or `FLUX_VIEW_ARCHIVE` names; the stand-in where neither is set.
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
    pub(crate) fn published_if_possible(cluster: &Cluster) -> Result<Self> {
        let view = Self::from_environment()?;
        if view != Self::StandIn {
            return Ok(view);
        }
        progress::log(&format!("trying to pull the published view image {VIEW_IMAGE} ..."));
        let pulled =
            cluster.pull_image(VIEW_IMAGE).and_then(|()| cluster.pull_image(OPERATING_SYSTEM));
        if pulled.is_ok() {
            return Ok(Self::Image(VIEW_IMAGE.to_owned()));
        }
        progress::log("it cannot be pulled from here");
        Ok(Self::StandIn)
    }

    /// One line that names the Flux that runs.
    pub fn describe(&self) -> String {
        match self {
            Self::StandIn => "Flux: the stand-in of this project, not real Flux (set \
                              FLUX_VIEW_IMAGE or FLUX_VIEW_ARCHIVE to use a real one)"
                .to_owned(),
            Self::Image(image) => format!("Flux: the view image {image}"),
            // Without the directory: results of measurements have this line, and are published.
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

    pub fn has_fluxion(&self) -> Result<bool> {
        self.has("sched-fluxion-qmanager.so")
    }

    pub fn has_pmix(&self) -> Result<bool> {
        self.has("pmix.so")
    }

    /// Whether it has a file of this name. The harness cannot read an image of a registry, and takes it for complete.
    fn has(&self, file: &str) -> Result<bool> {
        match self {
            Self::StandIn => Ok(false),
            Self::Image(_) => Ok(true),
            Self::Archive(path) => holds(path, |name| name == file),
        }
    }

    /// Whether it has the C library that it needs. The published images have none. The harness cannot read another image
    /// of a registry, and takes it for complete.
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

    /// Its files, at the places where a view image has them; none where it is in a registry.
    pub fn layer(&self, scratch: &Path, binaries: &Binaries) -> Result<Option<Layer>> {
        match self {
            Self::Image(_) => Ok(None),
            Self::StandIn => {
                // Real Flux runs its rc tasks with a shell, which the view provides if the image has none. The
                // stand-in only checks that a shell exists.
                let files = ["bin/flux", "bin/bash", "libexec/flux/cmd/flux-job"];
                let file =
                    |path| Source::file(format!("/mnt/flux/view/{path}"), &binaries.stand_in);
                let files = files.map(file);
                Layer::from_sources(scratch, &files).map(Some)
            }
            Self::Archive(path) => Layer::from_archive(path).map(Some),
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
