//! The images that are shipped: built from the Dockerfiles for every architecture, and what they must be.

mod buildah;
mod toolchain;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use flux_operator::images::{AGENT_IMAGE, OPERATOR_IMAGE};

use self::buildah::{Build, Buildah};
use super::{binaries::target, cargo};
use crate::{
    architecture::Architecture,
    cache::{Cache, remove_tree},
    images::image::Image,
    programs,
    progress::Progress,
};

/// An image that is shipped.
struct Shipped {
    /// The program that it starts.
    program: &'static str,
    /// A static program beside that.
    beside: Option<&'static str>,
    dockerfile: &'static str,
    /// The name that it is published under: where it is loaded, the manifests find it.
    published: &'static str,
    /// The bytes that its files may have, unpacked: every node keeps them.
    limit: u64,
    /// The libraries in `/lib` that the program needs; a static one needs none.
    libraries: &'static [&'static str],
}

const OPERATOR: Shipped = Shipped {
    program: "flux-operator",
    beside: None,
    dockerfile: "Dockerfile.operator",
    published: OPERATOR_IMAGE,
    limit: 25_000_000,
    libraries: &["libc.so.6", "libgcc_s.so.1", "libm.so.6"],
};
const AGENT: Shipped = Shipped {
    program: "flux-agent",
    beside: Some("flux-view"),
    dockerfile: "Dockerfile.agent",
    published: AGENT_IMAGE,
    limit: 7_500_000,
    libraries: &[],
};

/// A directory with the archives of the images, `PROGRAM-ARCHITECTURE.tar`, and the programs that are in them.
#[derive(Debug, Clone)]
pub struct Images {
    directory: PathBuf,
}

impl Images {
    /// The images that an earlier build has left in `directory`.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The operator's image for this machine, its layers unpacked into `scratch`.
    pub fn operator_image(&self, scratch: &Path) -> Result<Image> {
        self.image(&OPERATOR, here()?, scratch)
    }

    /// The agent's image for this machine, its layers unpacked into `scratch`.
    pub fn agent_image(&self, scratch: &Path) -> Result<Image> {
        self.image(&AGENT, here()?, scratch)
    }

    /// The operator of the image for this machine, as `unpack` makes it.
    pub fn operator(&self) -> Result<PathBuf> {
        Ok(self.program(&OPERATOR, here()?))
    }

    /// The agent of the image for this architecture.
    pub fn agent(&self, architecture: Architecture) -> PathBuf {
        self.program(&AGENT, architecture)
    }

    /// The program of the agent's image for this architecture that packs views.
    pub fn view_tool(&self, architecture: Architecture) -> PathBuf {
        self.directory.join(architecture.image_name()).join("flux-view")
    }

    fn image(&self, shipped: &Shipped, of: Architecture, scratch: &Path) -> Result<Image> {
        Image::from_archive(&self.archive(shipped, of), scratch)
    }

    fn archive(&self, shipped: &Shipped, architecture: Architecture) -> PathBuf {
        self.directory.join(format!("{}-{}.tar", shipped.program, architecture.image_name()))
    }

    fn program(&self, shipped: &Shipped, architecture: Architecture) -> PathBuf {
        self.directory.join(architecture.image_name()).join(shipped.program)
    }
}

fn here() -> Result<Architecture> {
    Architecture::of_this_machine().with_context(|| {
        format!("no image is built for this machine's architecture, {}", std::env::consts::ARCH)
    })
}

/// Builds all images for these architectures into `target/images`, and checks them.
pub fn build(architectures: &[Architecture], progress: &Progress) -> Result<Images> {
    let cache = Cache::locate()?;
    let buildah = Buildah::new(&cache, progress)?;
    let _alone = buildah.lock()?;
    let toolchain = toolchain::image(&cache, progress)?;
    let build_image = toolchain.content_name();
    progress.step("the crates of every platform are downloaded", || {
        programs::show(&mut cargo(&["fetch", "--locked", "--quiet"])?)
    })?;
    progress.step("the image to build in is there", || buildah.load(&toolchain, &build_image))?;
    let images = Images::at(target()?.join("images"));
    remove_tree(&images.directory)?;
    // Side by side: the end of each build uses one processor alone.
    std::thread::scope(|scope| {
        let of = |architecture| {
            let (buildah, images, build_image) = (&buildah, &images, &build_image);
            move || all_for(architecture, build_image, buildah, images, progress)
        };
        let builds = architectures.iter().map(|architecture| scope.spawn(of(*architecture)));
        // All of them begin before the first is waited for.
        let builds: Vec<_> = builds.collect();
        let mut builds = builds.into_iter();
        builds.try_for_each(|build| build.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    Ok(images)
}

/// Builds all images for one architecture, and checks them.
fn all_for(
    architecture: Architecture,
    build_image: &str,
    buildah: &Buildah,
    images: &Images,
    progress: &Progress,
) -> Result<()> {
    let build_image = &buildah.copy_for(architecture.image_name(), build_image)?;
    for shipped in [&AGENT, &OPERATOR] {
        let what = format!("building {} for {}", shipped.dockerfile, architecture.image_name());
        progress.long_step(&what, "6 min", || {
            one(shipped, architecture, build_image, buildah, images)
        })?;
    }
    Ok(())
}

/// Builds one image for one architecture, and checks it.
fn one(
    shipped: &Shipped,
    architecture: Architecture,
    build_image: &str,
    buildah: &Buildah,
    images: &Images,
) -> Result<()> {
    let build = Build {
        dockerfile: shipped.dockerfile,
        architecture: architecture.image_name(),
        base: build_image,
        registry: &registry()?,
    };
    let name = name(shipped, architecture);
    buildah.build(&build, &name)?;
    let archive = images.archive(shipped, architecture);
    let program = images.program(shipped, architecture);
    let parent = program.parent().unwrap_or(&images.directory);
    fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    buildah.save(&name, &archive, shipped.published)?;
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    let image = Image::from_archive(&archive, scratch.path())?;
    unpack(shipped, architecture, &image, &program)?;
    check(shipped, &image).with_context(|| format!("checking {}", archive.display()))
}

/// Makes `program` of the program in `image`. Where that is not static, `program` is a script that starts it with the
/// image's own loader and libraries: those of this machine may be older.
fn unpack(
    shipped: &Shipped,
    architecture: Architecture,
    image: &Image,
    program: &Path,
) -> Result<()> {
    let path = format!("/{}", shipped.program);
    if let Some(beside) = shipped.beside {
        image.extract(&format!("/{beside}"), &program.with_file_name(beside))?;
    }
    if shipped.libraries.is_empty() {
        return image.extract(&path, program);
    }
    let directory = program.with_extension("image");
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    let put = |file: &str| {
        let place = directory.join(file.rsplit('/').next().unwrap_or(file));
        image.extract(file, &place).map(|()| place.display().to_string())
    };
    let (own, loader) = (put(&path)?, put(architecture.loader())?);
    for library in shipped.libraries {
        put(&format!("/lib/{library}"))?;
    }
    let libraries = directory.display();
    let script =
        format!("#!/bin/sh\nexec '{loader}' --library-path '{libraries}' '{own}' \"$@\"\n");
    let written = fs::write(program, script)
        .and_then(|()| fs::set_permissions(program, Permissions::from_mode(0o755)));
    written.with_context(|| format!("writing {}", program.display()))
}

/// Where cargo keeps downloaded crates.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    Ok(home
        .context("looking for cargo's directory: neither CARGO_HOME nor HOME is set")?
        .join("registry"))
}

fn name(shipped: &Shipped, architecture: Architecture) -> String {
    format!("localhost/flux-e2e/{}:built-{}", shipped.program, architecture.image_name())
}

/// An image is small, runs as an ordinary user, and says what it is.
fn check(shipped: &Shipped, image: &Image) -> Result<()> {
    let size = image.size()?;
    ensure!(
        size <= shipped.limit,
        "its files have {size} bytes, more than the {} they may have",
        shipped.limit
    );
    let config = image.config();
    ensure!(config.user == "65532:65532", "it runs as {:?}, not as an ordinary user", config.user);
    ensure!(
        config.entrypoint == [format!("/{}", shipped.program)],
        "it starts {:?}",
        config.entrypoint
    );
    for label in ["title", "description", "licenses"] {
        let label = format!("org.opencontainers.image.{label}");
        ensure!(config.labels.contains_key(&label), "it has no label {label}");
    }
    Ok(())
}
