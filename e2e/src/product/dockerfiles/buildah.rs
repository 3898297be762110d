//! buildah, with a store of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    architecture::Architecture,
    cache::{self, Cache, Key},
    images::image::Image,
    packages,
    product::{checkout, of_this_machine},
    programs,
    progress::Progress,
};

/// A store of images in the harness' cache. Layers that were built stay there, for the next build.
pub(super) struct Buildah {
    store: PathBuf,
    _alone: cache::Lock,
}

impl Buildah {
    /// Waits until no other process of this machine builds.
    pub(super) fn alone(cache: &Cache, progress: &Progress) -> Result<Self> {
        packages::ensure(packages::IMAGE_BUILDER, progress)?;
        // Pruned as a whole when no build has used it for long.
        let store = cache.artefact(&Key::new("image-store", "1", &[]), |_| Ok(()))?;
        Ok(Self { _alone: cache::lock(&store.join(".lock"))?, store })
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.store.join("storage"));
        command.arg("--runroot").arg(self.store.join("run"));
        command.arg(subcommand);
        command
    }

    /// Takes an image into the store, and returns its name there.
    pub(super) fn load(&self, image: &Image) -> Result<String> {
        let name = image.content_name();
        if programs::run(self.command("inspect").args(["--type", "image", &name])).is_err() {
            let file = tempfile::NamedTempFile::new().context("making a file for an archive")?;
            image.write_archive(&[&name], file.as_file())?;
            let archive = format!("docker-archive:{}", file.path().display());
            programs::run(self.command("pull").arg(archive))?;
        }
        Ok(name)
    }

    /// Builds the image of a Dockerfile for an architecture in the image `base`, and writes it as the archive that
    /// `docker save` writes of an image of this name.
    pub(super) fn build(
        &self,
        dockerfile: &str,
        architecture: Architecture,
        base: &str,
        archive: &Path,
        name: &str,
    ) -> Result<()> {
        let (of, here) = (architecture.image_name(), of_this_machine()?.image_name());
        let built = format!("localhost/flux-e2e/{}:{of}", dockerfile.to_lowercase());
        let mut command = self.command("build");
        command.args(["--layers", "--isolation", "chroot", "--pull=never"]);
        command.args(["--file", dockerfile, "--tag", &built]);
        command.arg(format!("--platform=linux/{of}"));
        // Older releases of buildah do not say it by themselves.
        command.arg(format!("--build-arg=BUILDPLATFORM=linux/{here}"));
        command.arg(format!("--build-arg=BUILD_IMAGE={base}"));
        command.arg(format!("--volume={}:/usr/local/cargo/registry", registry()?.display()));
        programs::show(command.arg(".").current_dir(checkout()?))?;
        let archive = format!("docker-archive:{}:{name}", archive.display());
        programs::run(self.command("push").args([&built, &archive])).map(drop)
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
