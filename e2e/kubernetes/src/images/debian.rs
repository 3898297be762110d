//! Debian images with a shell and the usual tools, like most images of users.

use super::image::{Image, ImageConfig};
use super::layer::Layer;
use crate::cache::{self, Cache};
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHIVE: &str = "root.tar";

/// The variable in which mmdebstrap's hooks find the path of a program's source.
const SOURCE: &str = "FLUX_E2E_SOURCE";

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
}

impl Release {
    fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    /// The date of the release. mmdebstrap gives no file a later time.
    fn epoch(self) -> &'static str {
        match self {
            Self::Bookworm => "1686355200",
            Self::Trixie => "1754697600",
        }
    }
}

/// A program that is compiled in the image that it runs in.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file of its source.
    pub source: &'a Path,
    /// The image's command that compiles its standard input, for a shell.
    pub compile: &'a str,
    /// The packages that compiling needs; they are removed afterwards.
    pub tools: &'a [&'a str],
}

/// What an image is made of, on top of the smallest Debian.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// The release that all packages are of.
    pub release: Release,
    /// The packages.
    pub packages: &'a [&'a str],
    /// A program, if there is one.
    pub program: Option<Program<'a>>,
}

/// A minimal Debian 12 with these packages on top, made once and then taken from the cache.
pub fn debian(cache: &Cache, packages: &[&str]) -> Result<Image> {
    Recipe { release: Release::Bookworm, packages, program: None }.image(cache)
}

impl Recipe<'_> {
    /// The image, made once and then taken from the cache.
    pub fn image(&self, cache: &Cache) -> Result<Image> {
        let key = self.key()?;
        let directory = match cache.find(&key) {
            Some(found) => found,
            None => self.make(cache, &key)?,
        };
        let config = ImageConfig {
            environment: vec![
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            ],
            command: vec!["bash".to_owned()],
            ..ImageConfig::default()
        };
        Ok(Image::new(vec![Layer::from_archive(&directory.join(ARCHIVE))?], config))
    }

    fn key(&self) -> Result<String> {
        let arguments = self.arguments().join(" ");
        let mut inputs = vec![("arguments", arguments.into_bytes())];
        if let Some(Program { source, .. }) = self.program {
            inputs.push(("source", fs::read(source)?));
        }
        let inputs: Vec<_> = inputs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        Ok(cache::key("debian", self.release.name(), &inputs))
    }

    /// mmdebstrap's, but for the archive's name.
    fn arguments(&self) -> Vec<String> {
        let mut packages = self.packages.to_vec();
        let mut arguments = ["--quiet", "--variant=minbase"].map(str::to_owned).to_vec();
        let excluded = ["doc", "man", "locale"];
        arguments.extend(excluded.map(|it| format!("--dpkgopt=path-exclude=/usr/share/{it}/*")));
        // Packages with alternatives, such as Java's, cannot be installed without it.
        arguments.push(r#"--essential-hook=mkdir --parents "$1/usr/share/man/man1""#.to_owned());
        if let Some(Program { compile, tools, .. }) = &self.program {
            packages.extend_from_slice(tools);
            arguments.push(format!(r#"--customize-hook=chroot "$1" {compile} < "${SOURCE}""#));
            // Purges inside the image only: this machine may have the same packages.
            arguments.push(format!(
                r#"--customize-hook=chroot "$1" apt-get --yes autoremove --purge {}"#,
                tools.join(" ")
            ));
        }
        if !packages.is_empty() {
            arguments.push(format!("--include={}", packages.join(",")));
        }
        arguments.push(self.release.name().to_owned());
        arguments
    }

    fn make(&self, cache: &Cache, key: &str) -> Result<PathBuf> {
        packages::ensure(packages::DEBIAN_IMAGE)?;
        let what = format!("making a root file system of Debian {}", self.release.name());
        progress::long_step(&what, "50 s", || {
            cache.artefact(key, |directory| {
                programs::run(&mut self.mmdebstrap(&directory.join(ARCHIVE)))
                    .map(drop)
                    .context("making a Debian root file system")
            })
        })
    }

    fn mmdebstrap(&self, archive: &Path) -> Command {
        let mut command = Command::new("mmdebstrap");
        command.args(self.arguments()).arg(archive);
        command.env("SOURCE_DATE_EPOCH", self.release.epoch());
        if let Some(program) = &self.program {
            command.env(SOURCE, program.source);
        }
        command
    }
}
