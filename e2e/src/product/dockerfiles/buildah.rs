//! buildah, with a store of its own in the harness' cache.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::{
    architecture::Architecture, cache::Cache, images::image::Image, packages, product::checkout,
    programs, progress::Progress,
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

/// A store of images. Layers that were built stay there, for the next build.
pub(super) struct Buildah {
    store: PathBuf,
}

impl Buildah {
    pub(super) fn new(cache: &Cache, progress: &Progress) -> Result<Self> {
        packages::ensure(packages::IMAGE_BUILDER, progress)?;
        Ok(Self { store: cache.image_store() })
    }

    /// The store, where something was built.
    pub(super) fn existing(cache: &Cache) -> Option<Self> {
        let store = cache.image_store();
        store.join("storage").is_dir().then_some(Self { store })
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

    /// Joins images in one list, which replaces the one that had its name.
    pub(super) fn join(&self, list: &str, images: &[String]) -> Result<()> {
        let gone = programs::run(self.command("manifest").args(["rm", list]));
        // Where there was none, the next command says all that matters.
        drop(gone);
        programs::run(self.command("manifest").args(["create", list]).args(images))?;
        Ok(())
    }

    /// Removes the layers that were built longer than `unused` ago and that no younger one stands on;
    /// returns how many images went.
    pub(super) fn prune(&self, unused: Duration) -> Result<usize> {
        let before = self.images()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let layers = built_before(&before, now.saturating_sub(unused).as_secs());
        for layers in layers.chunks(100) {
            // One that others stand on stays, and is none the worse.
            programs::run(self.command("rmi").args(layers))?;
        }
        Ok(before.len().saturating_sub(self.images()?.len()))
    }

    fn images(&self) -> Result<Vec<Stored>> {
        let output = programs::run(self.command("images").args(["--all", "--json"]))?;
        serde_json::from_slice(&output.stdout).context("reading the list of stored images")
    }

    /// The list, as JSON.
    pub(super) fn list(&self, list: &str) -> Result<serde_json::Value> {
        let output = programs::run(self.command("manifest").args(["inspect", list]))?;
        serde_json::from_slice(&output.stdout).with_context(|| format!("reading the list {list}"))
    }

    /// Writes an image as the archive that `docker save` writes, under another name.
    pub(super) fn save(&self, name: &str, archive: &Path, under: &str) -> Result<()> {
        let to = format!("docker-archive:{}:{under}", archive.display());
        programs::run(self.command("push").args([name, &to]))?;
        Ok(())
    }
}

/// An image of the store, as `buildah images --json` shows it.
#[derive(Debug, Deserialize)]
struct Stored {
    id: String,
    names: Option<Vec<String>>,
    /// Seconds after the epoch.
    created: u64,
}

/// Images without a name, built before `second`: layers that were kept for a next build.
fn built_before(images: &[Stored], second: u64) -> Vec<&str> {
    let unnamed = images.iter().filter(|image| image.names.as_ref().is_none_or(Vec::is_empty));
    unnamed.filter(|image| image.created < second).map(|image| image.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_name_or_is_young_stays() {
        let images = r#"[
            {"id": "named", "names": ["localhost/a:1"], "created": 5},
            {"id": "old", "names": null, "created": 5},
            {"id": "young", "names": null, "created": 10}
        ]"#;
        let images: Vec<Stored> = serde_json::from_str(images).unwrap();
        assert_eq!(built_before(&images, 10), ["old"]);
    }
}
