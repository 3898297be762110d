//! buildah, with a store of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    architecture::Architecture,
    cache::{self, Cache},
    images::image::Image,
    packages,
    product::checkout,
    programs,
    progress::Progress,
};

/// A store of images in the harness' cache. Layers that were built stay there, for the next build.
pub(super) struct Buildah {
    store: PathBuf,
}

impl Buildah {
    pub(super) fn new(cache: &Cache, progress: &Progress) -> Result<Self> {
        packages::ensure(packages::IMAGE_BUILDER, progress)?;
        // Pruned as a whole when no build has used it for long.
        let key = cache::key("image-store", "1", &[]);
        Ok(Self { store: cache.artefact(&key, |_| Ok(()))? })
    }

    /// Held while one of the processes of this machine builds.
    pub(super) fn lock(&self) -> Result<cache::Lock> {
        cache::lock(&self.store.join(".lock"))
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.store.join("storage"));
        command.arg("--runroot").arg(self.store.join("run"));
        command.arg(subcommand);
        command
    }

    /// Takes an image into the store, under this name.
    pub(super) fn load(&self, image: &Image, name: &str) -> Result<()> {
        if programs::run(self.command("inspect").args(["--type", "image", name])).is_ok() {
            return Ok(());
        }
        let file = tempfile::NamedTempFile::new().context("making a file for an image archive")?;
        image.write_archive(&[name], file.as_file())?;
        programs::run(
            self.command("pull").arg(format!("docker-archive:{}", file.path().display())),
        )?;
        Ok(())
    }

    /// Builds the image of a Dockerfile for an architecture, as images name it, in the image `base`, and names it.
    pub(super) fn build(
        &self,
        dockerfile: &str,
        architecture: &str,
        base: &str,
        name: &str,
    ) -> Result<()> {
        let mut command = self.command("build");
        command.args(["--layers", "--isolation", "chroot", "--pull=never"]);
        command.args(["--file", dockerfile, "--tag", name]);
        command.arg(format!("--platform=linux/{architecture}"));
        // Older releases of buildah do not say it by themselves.
        let here = Architecture::of_this_machine()
            .map_or(std::env::consts::ARCH, Architecture::image_name);
        command.arg(format!("--build-arg=BUILDPLATFORM=linux/{here}"));
        command.arg(format!("--build-arg=BUILD_IMAGE={base}"));
        command.arg(format!("--volume={}:/usr/local/cargo/registry", registry()?.display()));
        programs::show(command.arg(".").current_dir(checkout()?))
    }

    /// Writes an image as the archive that `docker save` writes, under another name.
    pub(super) fn save(&self, name: &str, archive: &Path, under: &str) -> Result<()> {
        let to = format!("docker-archive:{}:{under}", archive.display());
        programs::run(self.command("push").args([name, &to]))?;
        Ok(())
    }
}

/// Where cargo keeps downloaded crates.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    Ok(home
        .context("looking for cargo's directory: neither CARGO_HOME nor HOME is set")?
        .join("registry"))
}
