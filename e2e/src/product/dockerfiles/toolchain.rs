//! The image in which the images of the project are built: a Debian with C compilers for every architecture
//! and the Rust of this machine, in the place of Docker's `rust`.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use rustc_build_sysroot::{SysrootBuilder, SysrootConfig};

use crate::{
    architecture::Architecture,
    cache::{Cache, Key},
    images::{
        debian::{Recipe, Release},
        image::{Image, ImageConfig},
        layer::Layer,
    },
    packages,
    product::{cargo, checkout},
    programs,
    progress::Progress,
};

/// Where it is in the image.
const PLACE: &str = "usr/local";
/// What compiles and links C, whatever for.
const NATIVE: [&str; 2] = ["gcc", "libc6-dev"];
/// How Rust's libraries are built, beside what Rust's own are: an image's program is optimised as a whole.
const LIBRARY_FLAG: &str = "-Cembed-bitcode=yes";
/// The library for programs that end at a panic: alone of all it is compiled for that, as Rust's own is.
const ABORTS: &str = r#"profile.custom_sysroot.package.panic_abort.rustflags=["-Cpanic=abort"]"#;
/// The release of Debian that has the sources of every recent Rust.
const SOURCES: &str = "trixie-backports";

/// The image. Crates come from this machine: cargo asks nobody.
pub(super) fn image(cache: &Cache, progress: &Progress) -> Result<Image> {
    let others =
        Architecture::ALL.into_iter().filter(|it| Some(*it) != Architecture::of_this_machine());
    let cross = others.flat_map(Architecture::cross_compiler).map(packages::Package::name);
    let packages: Vec<_> = NATIVE.into_iter().chain(cross).collect();
    let recipe = Recipe { release: Release::Bookworm, packages: &packages, program: None };
    let debian = recipe.image(cache, progress)?;
    let config = ImageConfig {
        environment: vec![
            format!("PATH=/{PLACE}/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            format!("CARGO_HOME=/{PLACE}/cargo"),
            "CARGO_NET_OFFLINE=true".to_owned(),
        ],
        ..ImageConfig::default()
    };
    Ok(debian.on_top(rust(cache, progress)?, config))
}

/// The Rust of this machine, made into a layer once.
fn rust(cache: &Cache, progress: &Progress) -> Result<Layer> {
    let version = rustc(&["--version", "--verbose"])?;
    let release = version.lines().find_map(|line| line.strip_prefix("release: "));
    let release = release.with_context(|| format!("no release in what rustc says: {version}"))?;
    let flags = [LIBRARY_FLAG, ABORTS].join(" ");
    let inputs = [("version", version.as_bytes()), ("flags", flags.as_bytes())];
    let key = Key::new("rust", release, &inputs);
    let directory = match cache.find(&key) {
        Some(found) => found,
        None => progress.long_step(
            "making an image with Rust for every architecture",
            "2 min",
            || {
                cache.artefact(&key, |directory| {
                    Layer::keep_in(directory, |archive| write(archive, release, progress))
                })
            },
        )?,
    };
    Layer::kept_in(&directory)
}

/// Asks the compiler of this checkout.
fn rustc(arguments: &[&str]) -> Result<String> {
    let output = programs::run(Command::new("rustc").args(arguments).current_dir(checkout()?))?;
    let said = String::from_utf8(output.stdout).context("reading what rustc said")?;
    Ok(said.trim().to_owned())
}

/// Writes cargo, the compiler and Rust's libraries for every architecture into an archive.
fn write(archive: &Path, release: &str, progress: &Progress) -> Result<()> {
    let here = PathBuf::from(rustc(&["--print", "sysroot"])?);
    let built = tempfile::tempdir().context("making a directory for Rust's libraries")?;
    let file = File::create(archive).with_context(|| format!("opening {}", archive.display()))?;
    let mut archive = tar::Builder::new(BufWriter::new(file));
    let place = Path::new(PLACE);
    let cargo = std::env::var_os("CARGO").map_or_else(|| here.join("bin/cargo"), PathBuf::from);
    archive.append_path_with_name(cargo, place.join("bin/cargo")).context("adding cargo")?;
    archive
        .append_path_with_name(here.join("bin/rustc"), place.join("bin/rustc"))
        .context("adding rustc")?;
    archive
        .append_dir_all(place.join("lib"), here.join("lib"))
        .context("adding Rust's libraries")?;
    for architecture in Architecture::ALL {
        let libraries = Path::new("lib/rustlib").join(architecture.target());
        if !here.join(&libraries).is_dir() {
            build_libraries(architecture, release, built.path(), progress)?;
            archive
                .append_dir_all(place.join(&libraries), built.path().join(&libraries))
                .context("adding them")?;
        }
    }
    archive.into_inner().and_then(|mut it| it.flush()).context("writing the layer with Rust")?;
    Ok(())
}

/// Builds Rust's own libraries for an architecture from Debian's copy of their source, where this machine's
/// Rust came without them.
fn build_libraries(
    architecture: Architecture,
    release: &str,
    into: &Path,
    progress: &Progress,
) -> Result<()> {
    let target = architecture.target();
    packages::ensure(architecture.cross_compiler(), progress)?;
    let sources = tempfile::tempdir().context("making a directory for Rust's sources")?;
    let library = fetch_sources(release, sources.path(), progress).with_context(|| {
        format!(
            "looking for the sources of Rust's libraries; `rustup target add {target}` spares that"
        )
    })?;
    let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let mut cargo = cargo(&["-Zprofile-rustflags", "--config", ABORTS])?;
    // Rust's libraries use what only they may use.
    cargo.env("RUSTC_BOOTSTRAP", "1").env(linker, architecture.compiler());
    let config = SysrootConfig::WithStd {
        std_features: vec!["panic-unwind".to_owned(), "backtrace".to_owned()],
    };
    SysrootBuilder::new(into, target)
        .sysroot_config(config)
        .rustflag(LIBRARY_FLAG)
        .cargo(cargo)
        .build_from_source(&library)
        .with_context(|| format!("building Rust's libraries for {target}"))?;
    Ok(())
}

/// Unpacks the sources of Rust's libraries, and says where they are.
fn fetch_sources(release: &str, into: &Path, progress: &Progress) -> Result<PathBuf> {
    packages::ensure(packages::DEBIAN_IMAGE, progress)?;
    let include = format!("--include=rust-src={release}*");
    programs::run(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=extract", &include, SOURCES])
            .arg(into),
    )?;
    let library = into.join(format!("usr/src/rustc-{release}/library"));
    ensure!(library.is_dir(), "Debian's package rust-src {release} has no {}", library.display());
    fs::canonicalize(&library).with_context(|| format!("looking at {}", library.display()))
}
