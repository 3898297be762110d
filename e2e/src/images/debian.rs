//! A Debian 12 image, as users' images mostly are: with a shell and the usual tools.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{
    image::{Image, ImageConfig},
    layer::Layer,
};
use crate::{
    cache::{Cache, Key},
    packages, programs,
    progress::Progress,
};

const RELEASE: &str = "bookworm";
/// mmdebstrap gives no file a later time than this: the release's date.
const EPOCH: &str = "1686355200";

/// A minimal Debian 12 with these packages on top, made once and then taken from the cache.
pub fn debian(cache: &Cache, include: &[&str], progress: &Progress) -> Result<Image> {
    let include = include.join(",");
    let arguments = arguments(&include);
    let inputs = arguments.join(" ");
    let key = Key::new("debian", RELEASE, &[("arguments", inputs.as_bytes())]);
    let directory = match cache.find(&key) {
        Some(found) => found,
        None => make(cache, &key, &arguments, progress)?,
    };
    let path = directory.join("root.tar");
    let digest = fs::read_to_string(directory.join("digest"))
        .with_context(|| format!("reading the digest of {}", path.display()))?;
    let config = ImageConfig {
        environment: vec![
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ],
        command: vec!["bash".to_owned()],
        ..ImageConfig::default()
    };
    Ok(Image::new(vec![Layer::known(path, digest)], config))
}

fn arguments(include: &str) -> Vec<String> {
    let mut arguments = vec!["--quiet".to_owned(), "--variant=minbase".to_owned()];
    arguments.push("--dpkgopt=path-exclude=/usr/share/doc/*".to_owned());
    arguments.push("--dpkgopt=path-exclude=/usr/share/man/*".to_owned());
    arguments.push("--dpkgopt=path-exclude=/usr/share/locale/*".to_owned());
    if !include.is_empty() {
        arguments.push(format!("--include={include}"));
    }
    arguments.push(RELEASE.to_owned());
    arguments
}

fn make(
    cache: &Cache,
    key: &Key,
    arguments: &[String],
    progress: &Progress,
) -> Result<std::path::PathBuf> {
    packages::ensure(packages::DEBIAN_IMAGE, progress)?;
    progress.long_step("making a Debian 12 root file system", "50 s", || {
        cache.artefact(key, |directory| {
            let path = directory.join("root.tar");
            programs::run(mmdebstrap(arguments, &path).env("SOURCE_DATE_EPOCH", EPOCH))
                .context("making a Debian root file system")?;
            let layer = Layer::from_archive(&path)?;
            fs::write(directory.join("digest"), layer.digest()).context("writing its digest")
        })
    })
}

fn mmdebstrap(arguments: &[String], archive: &Path) -> Command {
    let mut command = Command::new("mmdebstrap");
    command.args(arguments).arg(archive);
    command
}
