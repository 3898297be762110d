//! The images that are shipped: built from the Dockerfiles for every architecture, and checked.

use super::{
    AGENT, OPERATOR, ORDINARY_USER, checkout, fetch_every_platform, of_this_machine,
    other_architectures, printed, target,
};
use crate::architecture::Architecture;
use crate::cache::{self, Cache};
use crate::images::debian::{Recipe, Release};
use crate::images::image::Image;
use crate::progress;
use crate::{packages, programs};
use anyhow::{Context as _, Result, ensure};
use flux_api::images::{AGENT_IMAGE, OPERATOR_IMAGE};
use fs_err as fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image that is shipped.
struct Shipped {
    /// The program that it starts.
    program: &'static str,
    /// The files that come with it: another program, or the libraries that it needs besides the loader.
    beside: &'static [&'static str],
    is_static: bool,
    dockerfile: &'static str,
    /// The name that it is published under, which the manifests use.
    published: &'static str,
    /// The bytes that its files may have, unpacked: every node keeps them.
    limit: u64,
}

/// All of them.
const SHIPPED: [Shipped; 2] = [
    Shipped {
        program: AGENT,
        beside: &["/flux-rest", "/flux-view"],
        is_static: true,
        dockerfile: "Dockerfile.agent",
        published: AGENT_IMAGE,
        limit: 9_500_000,
    },
    Shipped {
        program: OPERATOR,
        beside: &["/lib/libc.so.6", "/lib/libgcc_s.so.1", "/lib/libm.so.6"],
        is_static: false,
        dockerfile: "Dockerfile.operator",
        published: OPERATOR_IMAGE,
        limit: 25_000_000,
    },
];

/// The packages that compile C and link for this machine's architecture.
const NATIVE: [&str; 2] = ["gcc", "libc6-dev"];

/// The place of this machine's Rust in the image to build in.
const RUST: &str = "/usr/local/rust";

/// A directory with the archives of the images, `PROGRAM-ARCHITECTURE.tar`, and the programs that are in them.
#[derive(Debug, Clone)]
pub(crate) struct Images {
    pub(crate) directory: PathBuf,
}

impl Images {
    /// The image that starts `program` on this machine, its layers unpacked into `scratch`.
    pub(crate) fn image(&self, program: &str, scratch: &Path) -> Result<Image> {
        Image::from_archive(&self.archive(program, of_this_machine()?), scratch)
    }

    /// A program of the images for this architecture, as `unpack` makes it.
    pub(crate) fn program(&self, program: &str, architecture: Architecture) -> PathBuf {
        self.directory.join(architecture.image_name).join(program)
    }

    fn build(
        &self,
        shipped: &Shipped,
        architecture: Architecture,
        buildah: &Buildah,
    ) -> Result<()> {
        let archive = self.archive(shipped.program, architecture);
        let program = self.program(shipped.program, architecture);
        fs::create_dir_all(program.parent().unwrap_or(&self.directory))?;
        buildah.build(shipped, architecture, &archive)?;
        let scratch = tempfile::tempdir().context("making a directory for image layers")?;
        let image = Image::from_archive(&archive, scratch.path())?;
        unpack(shipped, architecture.loader, &image, &program)?;
        check(shipped, &image).with_context(|| format!("checking {}", archive.display()))
    }

    fn archive(&self, program: &str, architecture: Architecture) -> PathBuf {
        self.directory.join(format!("{program}-{}.tar", architecture.image_name))
    }
}

/// Builds all images for these architectures into `target/images`, and checks them.
pub(crate) fn build(architectures: &[Architecture]) -> Result<Images> {
    let buildah = Buildah::new()?;
    fetch_every_platform()?;
    add_targets(architectures)?;
    let images = Images { directory: target()?.join("images") };
    cache::remove_tree(&images.directory)?;
    for architecture in architectures.iter().copied() {
        for shipped in &SHIPPED {
            let what = format!("building {} for {}", shipped.dockerfile, architecture.image_name);
            progress::long_step(&what, "6 min", || images.build(shipped, architecture, &buildah))?;
        }
    }
    Ok(images)
}

/// buildah, with a store of images in the harness' cache. Layers that were built stay there, for the next build.
struct Buildah {
    store: PathBuf,
    /// The name of the image to build in.
    base: String,
    /// The directory of this machine's Rust, which is mounted into that image.
    rust: String,
    _alone: cache::Lock,
}

impl Buildah {
    /// Waits until no other process of this machine builds, and takes the image to build in into the store.
    fn new() -> Result<Self> {
        packages::ensure(packages::IMAGE_BUILDER)?;
        let cache = Cache::locate()?;
        let store = cache.artefact(&cache::key("image-store", "1", &[]), |_| Ok(()))?;
        let alone = cache::lock(&store.join(".lock"))?;
        let toolchain = toolchain(&cache)?;
        let rust = printed(Command::new("rustc").args(["--print", "sysroot"]))?.trim().to_owned();
        let buildah = Self { store, base: toolchain.content_name(), rust, _alone: alone };
        progress::step("the image to build in is there", || buildah.load(&toolchain))?;
        Ok(buildah)
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.store.join("storage"));
        command.arg("--runroot").arg(self.store.join("run"));
        command.arg(subcommand);
        command
    }

    fn load(&self, toolchain: &Image) -> Result<()> {
        let mut inspect = self.command("inspect");
        if programs::run(inspect.args(["--type", "image", &self.base])).is_ok() {
            return Ok(());
        }
        let file = tempfile::NamedTempFile::new().context("making a file for an image archive")?;
        toolchain.write_archive(&[&self.base], file.as_file())?;
        let archive = format!("docker-archive:{}", file.path().display());
        programs::run(self.command("pull").arg(archive)).map(drop)
    }

    /// Builds an image, and writes it as the archive that `docker save` writes, under its published name.
    fn build(&self, shipped: &Shipped, architecture: Architecture, archive: &Path) -> Result<()> {
        let (of, here) = (architecture.image_name, of_this_machine()?.image_name);
        let name = format!("localhost/flux-e2e/{}:built-{of}", shipped.program);
        let mut command = self.command("build");
        command.args(["--layers", "--isolation", "chroot", "--pull=never"]);
        command.args(["--file", shipped.dockerfile, "--tag", &name]);
        command.arg(format!("--platform=linux/{of}"));
        // Older releases of buildah do not set it.
        command.arg(format!("--build-arg=BUILDPLATFORM=linux/{here}"));
        command.arg(format!("--build-arg=BUILD_IMAGE={}", self.base));
        command.arg(format!("--volume={}:/usr/local/cargo/registry", registry()?.display()));
        command.arg(format!("--volume={}:{RUST}:ro", self.rust));
        programs::show(command.arg(".").current_dir(checkout()?))?;
        let archive = format!("docker-archive:{}:{}", archive.display(), shipped.published);
        programs::run(self.command("push").args([&name, &archive])).map(drop)
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

/// The image to build in, instead of Docker's `rust`: a Debian with C compilers for every architecture. Rust and the
/// crates are those of this machine, so that cargo downloads nothing.
fn toolchain(cache: &Cache) -> Result<Image> {
    let cross = other_architectures().flat_map(|it| it.cross_packages);
    let packages: Vec<_> = NATIVE.into_iter().chain(cross).collect();
    let recipe = Recipe { release: Release::Bookworm, packages: &packages, program: None };
    let mut image = recipe.image(cache)?;
    let version = printed(Command::new("rustc").arg("--version"))?;
    image.config.environment = vec![
        format!("PATH={RUST}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
        "CARGO_HOME=/usr/local/cargo".to_owned(),
        "CARGO_NET_OFFLINE=true".to_owned(),
        // Another compiler makes another image, so that buildah uses no layers of the former one.
        format!("RUST_VERSION={}", version.trim()),
    ];
    Ok(image)
}

/// Adds the targets of these architectures to this machine's Rust.
fn add_targets(architectures: &[Architecture]) -> Result<()> {
    for other in other_architectures().filter(|it| architectures.contains(it)) {
        programs::show(Command::new("rustup").args(["target", "add", other.target]))?;
    }
    Ok(())
}

/// Makes `program` of the program in `image`. Where that is not static, `program` is a script that starts it with the
/// image's own loader and libraries: those of this machine may be older.
fn unpack(shipped: &Shipped, loader: &str, image: &Image, program: &Path) -> Result<()> {
    let place = |file: &str| program.with_file_name(file.rsplit('/').next().unwrap_or(file));
    for file in shipped.beside {
        image.extract(file, &place(file))?;
    }
    let path = format!("/{}", shipped.program);
    if shipped.is_static {
        return image.extract(&path, program);
    }
    let own = program.with_extension("dynamic");
    image.extract(&path, &own)?;
    image.extract(loader, &place(loader))?;
    let (own, loader, libraries) = (own.display(), place(loader), program.with_file_name(""));
    let (loader, libraries) = (loader.display(), libraries.display());
    let script =
        format!("#!/bin/sh\nexec '{loader}' --library-path '{libraries}' '{own}' \"$@\"\n");
    fs::write(program, script)?;
    Ok(fs::set_permissions(program, Permissions::from_mode(0o755))?)
}

/// Checks that an image is small, runs as an ordinary user, and has labels that describe it.
fn check(shipped: &Shipped, image: &Image) -> Result<()> {
    let (size, limit) = (image.size()?, shipped.limit);
    ensure!(size <= limit, "its files have {size} bytes, more than the {limit} they may have");
    let config = &image.config;
    ensure!(config.user == ORDINARY_USER, "it runs as {:?}, not as an ordinary user", config.user);
    let started = &config.entrypoint;
    ensure!(*started == [format!("/{}", shipped.program)], "it starts {started:?}");
    for label in ["title", "description", "licenses"] {
        let label = format!("org.opencontainers.image.{label}");
        ensure!(config.labels.contains_key(&label), "it has no label {label}");
    }
    Ok(())
}
