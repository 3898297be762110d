//! Which Debian packages the harness needs, and how they get here.
//!
//! None of them starts a service. etcd is built rather than installed for that reason.

use crate::cache::{self, Cache};
use crate::programs;
use crate::progress::Progress;
use anyhow::{Context as _, Result, bail};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Debian package and the files that show that it, or an equal of it, is there.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    name: &'static str,
    /// Programs by name, other files by full path; all have to be there.
    provides: &'static [&'static str],
}

/// What a node needs.
pub const NODE: &[Package] = &[
    Package { name: "conntrack", provides: &["conntrack"] },
    Package { name: "containernetworking-plugins", provides: &["/usr/lib/cni/ptp"] },
    Package { name: "e2fsprogs", provides: &["mkfs.ext4"] },
    Package { name: "iproute2", provides: &["ip"] },
    Package { name: "iptables", provides: &["iptables"] },
    Package { name: "mount", provides: &["mount"] },
    Package { name: "runc", provides: &["runc"] },
    Package { name: "util-linux", provides: &["nsenter", "setsid", "unshare"] },
];

/// What making a Debian root file system needs.
pub(crate) const DEBIAN_IMAGE: &[Package] =
    &[Package { name: "mmdebstrap", provides: &["mmdebstrap"] }];

/// What building images from the Dockerfiles needs.
pub const IMAGE_BUILDER: &[Package] = &[
    Package { name: "buildah", provides: &["buildah"] },
    Package { name: "runc", provides: &["runc"] },
];

/// What running programs of other architectures needs.
pub const EMULATOR: &[Package] = &[Package {
    name: "qemu-user-static",
    provides: &["qemu-aarch64-static", "qemu-x86_64-static"],
}];

/// What uses the page of an instance: the driver comes with its browser.
pub const BROWSER: &[Package] = &[Package { name: "chromium-driver", provides: &["chromedriver"] }];

/// What fetches libraries for Java.
pub const MAVEN: &[Package] = &[Package { name: "maven", provides: &["mvn"] }];

/// What the image without a shell is made of.
pub const STATIC_PROGRAM: &[Package] =
    &[Package { name: "busybox-static", provides: &["busybox"] }];

/// Installs what is missing where this process may; otherwise the error names the packages to install.
pub fn ensure(packages: &[Package], progress: &Progress) -> Result<()> {
    let _alone = alone()?;
    let absent = missing(packages);
    if absent.is_empty() {
        return Ok(());
    }
    let names = absent.join(" ");
    if !nix::unistd::geteuid().is_root() || programs::find("apt-get").is_none() {
        bail!("these Debian packages (or what they provide) are missing, please install: {names}");
    }
    progress.long_step(&format!("installing Debian packages {names}"), "15 s", || {
        let mut install = apt_get();
        install.args(["install", "--yes", "--no-install-recommends"]).args(&absent);
        run_updated(&mut install).with_context(|| format!("installing the Debian packages {names}"))
    })
}

/// The directory with the files of a Debian package that is not installed: it would start a service.
pub fn unpacked(package: &str, cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    cache.artefact(&cache::key(package, "debian", &[]), |directory| {
        let what = format!("downloading the Debian package {package}");
        progress.long_step(&what, "15 s", || {
            let _alone = alone()?;
            // Its file is named by version and architecture: it is found as the only one of its directory.
            let archives = tempfile::tempdir().context("making a directory for a package")?;
            let mut download = apt_get();
            run_updated(download.args(["download", package]).current_dir(&archives))?;
            let archive = fs::read_dir(archives.path())?.next().context("finding a package")??;
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("--extract").arg(archive.path()).arg(directory);
            programs::run(&mut unpack).map(drop)
        })
    })
}

/// One at a time: while one `apt-get update` is at work another fails, and finds no package.
fn alone() -> Result<cache::Lock> {
    cache::lock(&Cache::locate()?.built().join(".packages.lock"))
}

/// Runs apt-get with lists of packages that are not out of date. A third party's broken package source must not keep
/// Debian's own from being used, so whether the lists are good enough shows when they are used.
fn run_updated(command: &mut Command) -> Result<()> {
    let updated = programs::run(apt_get().arg("update"));
    let done = programs::run(command);
    done.map(drop).map_err(|error| match updated {
        Ok(_) => error,
        Err(update) => error.context(update),
    })
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.args(["--quiet", "-o", "DPkg::Lock::Timeout=300"]);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn missing(packages: &[Package]) -> Vec<&'static str> {
    let is_missing = |package: &&Package| !package.provides.iter().all(|file| is_there(file));
    packages.iter().filter(is_missing).map(|package| package.name).collect()
}

fn is_there(file: &str) -> bool {
    if file.starts_with('/') { Path::new(file).exists() } else { programs::find(file).is_some() }
}
