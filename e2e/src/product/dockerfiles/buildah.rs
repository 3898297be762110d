//! buildah, with a store of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    architecture::Architecture,
    cache::{self, Cache, Key},
    images::image::Image,
    packages,
    product::checkout,
    programs,
    progress::Progress,
};

/// What builds an image from a Dockerfile.
pub(super) struct Build<'a> {
    /// The Dockerfile, from the checkout's root.
    pub dockerfile: &'a str,
    /// The architecture, as images name it.
    pub architecture: &'a str,
    /// The image that is built in.
    pub base: &'a str,
    /// The directory of this machine that has the crates.
    pub registry: &'a Path,
}

/// A store of images in the harness' cache. Layers that were built stay there, for the next build.
pub(super) struct Buildah {
    store: PathBuf,
}

impl Buildah {
    pub(super) fn new(cache: &Cache, progress: &Progress) -> Result<Self> {
        packages::ensure(packages::IMAGE_BUILDER, progress)?;
        // Pruned as a whole when no build has used it for long.
        let key = Key::new("image-store", "1", &[]);
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

    /// An image like `base` that is of builds for `architecture` alone, and its name. Of two builds that begin
    /// with the same image at the same time, buildah keeps a layer of one only.
    pub(super) fn copy_for(&self, architecture: &str, base: &str) -> Result<String> {
        let name = format!("{base}-{architecture}");
        if programs::run(self.command("inspect").args(["--type", "image", &name])).is_ok() {
            return Ok(name);
        }
        let context = tempfile::tempdir().context("making a directory to build in")?;
        let dockerfile = context.path().join("Dockerfile");
        fs::write(&dockerfile, format!("FROM {base}\nLABEL builds-for={architecture}\n"))
            .with_context(|| format!("writing {}", dockerfile.display()))?;
        let mut command = self.command("build");
        command.args(["--isolation", "chroot", "--pull=never", "--tag", &name, "--file"]);
        programs::run(command.arg(&dockerfile).arg(context.path()))?;
        Ok(name)
    }

    /// Builds the image of a Dockerfile and names it.
    pub(super) fn build(&self, build: &Build<'_>, name: &str) -> Result<()> {
        let mut command = self.command("build");
        command.args(["--layers", "--isolation", "chroot", "--pull=never"]);
        command.args(["--file", build.dockerfile, "--tag", name]);
        command.arg(format!("--platform=linux/{}", build.architecture));
        // Older releases of buildah do not say it by themselves.
        let here = Architecture::of_this_machine()
            .map_or(std::env::consts::ARCH, Architecture::image_name);
        command.arg(format!("--build-arg=BUILDPLATFORM=linux/{here}"));
        command.arg(format!("--build-arg=BUILD_IMAGE={}", build.base));
        command.arg(format!("--volume={}:/usr/local/cargo/registry", build.registry.display()));
        programs::show(command.arg(".").current_dir(checkout()?))
    }

    /// Writes an image as the archive that `docker save` writes, under another name.
    pub(super) fn save(&self, name: &str, archive: &Path, under: &str) -> Result<()> {
        let to = format!("docker-archive:{}:{under}", archive.display());
        programs::run(self.command("push").args([name, &to]))?;
        Ok(())
    }
}
