//! The Debian packages that the harness needs, and their installation.
//!
//! None of them starts a service. etcd is built rather than installed for that reason.

use crate::cache;
use crate::prelude::*;
use fs_err as fs;

/// A Debian package, and what exists if it, or an equal package, is installed: programs by name, other files by full path.
pub type Package = (&'static str, &'static [&'static str]);

/// What a node needs.
pub const NODE: &[Package] = &[
    ("conntrack", &["conntrack"]),
    ("containernetworking-plugins", &["/usr/lib/cni/ptp"]),
    ("e2fsprogs", &["mkfs.ext4"]),
    ("iproute2", &["ip"]),
    ("iptables", &["iptables"]),
    ("mount", &["mount"]),
    ("runc", &["runc"]),
    ("util-linux", &["nsenter", "setsid", "unshare"]),
];

/// What making a Debian root file system needs.
pub(crate) const DEBIAN_IMAGE: &[Package] = &[("mmdebstrap", &["mmdebstrap"])];

/// What building images from the Dockerfiles needs.
pub const IMAGE_BUILDER: &[Package] = &[("buildah", &["buildah"]), ("runc", &["runc"])];

/// What running programs of other architectures needs.
pub const EMULATOR: &[Package] =
    &[("qemu-user-static", &["qemu-aarch64-static", "qemu-x86_64-static"])];

/// The browser for the page of an instance: Debian's driver comes with it.
pub const BROWSER: &[Package] = &[("chromium-driver", &["chromedriver"])];

/// What fetches libraries for Java.
pub const MAVEN: &[Package] = &[("maven", &["mvn"])];

/// What the image without a shell is made of.
pub const STATIC_PROGRAM: &[Package] = &[("busybox-static", &["busybox"])];

/// Installs the missing packages if this process may do so; otherwise the error names them.
pub fn ensure(packages: &[Package]) -> Result<()> {
    let _alone = alone()?;
    let absent = missing(packages);
    if absent.is_empty() {
        return Ok(());
    }
    let names = absent.join(" ");
    if !nix::unistd::geteuid().is_root() || programs::find("apt-get").is_none() {
        bail!("these Debian packages (or what they provide) are missing, please install: {names}");
    }
    progress::long_step(&format!("installing Debian packages {names}"), "15 s", || {
        let mut install = apt_get();
        install.args(["install", "--yes", "--no-install-recommends"]).args(&absent);
        run_updated(&mut install).with_context(|| format!("installing the Debian packages {names}"))
    })
}

/// The directory with the files of a Debian package, which is not installed, because it would start a service.
pub fn unpacked(package: &str, cache: &Cache) -> Result<PathBuf> {
    cache.artefact(&cache::key(package, "debian", &[]), |directory| {
        let what = format!("downloading the Debian package {package}");
        progress::long_step(&what, "15 s", || {
            let _alone = alone()?;
            // The name of its file has version and architecture, but the directory has no other file.
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

/// Locks apt-get: a second `apt-get update` at the same time fails, and its process finds no package.
fn alone() -> Result<cache::Lock> {
    cache::lock(&Cache::locate()?.built().join(".packages.lock"))
}

/// Runs apt-get with current lists of packages. A failed update alone is no error, because a third party's package source
/// may be broken while Debian's own works; it becomes one if the command fails.
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
    let is_missing = |(_, files): &&Package| !files.iter().all(|file| is_there(file));
    packages.iter().filter(is_missing).map(|(name, _)| *name).collect()
}

fn is_there(file: &str) -> bool {
    if file.starts_with('/') { Path::new(file).exists() } else { programs::find(file).is_some() }
}
