//! Images that only measurements use: a whole operating system with the view, as one would write it by hand.

use e2e::cache::remove_tree;
use e2e::cluster::Cluster;
use e2e::images::debian::Release;
use e2e::images::image::Image;
use e2e::images::layer::{Layer, Source};
use e2e::prelude::*;
use e2e::product::binaries::Binaries;
use e2e::product::images::{agent, load_operating_system, mpi_program};
use fs_err::os::unix::fs::symlink;
use fs_err::{self as fs, File};
use walkdir::WalkDir;

/// A Debian with the view at the place it was built for; it has `cp`.
pub(crate) const SYSTEM_WITH_VIEW: &str = "localhost/flux-e2e/system-with-view:1";
/// The agent's image with the view in it, which one init container copies.
pub(crate) const AGENT_WITH_VIEW: &str = "localhost/flux-e2e/agent-with-view:1";
/// A Debian with the view where the Go operator takes it from.
pub(crate) const PEER_VIEW: &str = "localhost/flux-e2e/peer-view:1";
/// A Debian with Open MPI, the program of the example `mpi`, and the SSH that the MPI Operator starts ranks by.
pub(crate) const MPI: &str = "localhost/flux-e2e/open-mpi:1";

/// Where a view lies in its archive, and is used.
const VIEW: &str = "mnt/flux/view";
/// Where the Go operator looks for a view, below a directory of any name.
const PEER_PLACE: &str = "opt/views/._view/flat";

/// Makes and loads them, and the operating system of the pods.
pub(crate) fn load(cluster: &Cluster, binaries: &Binaries, view: &View) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    let Some(flux) = view.layer(scratch.path(), binaries)? else {
        bail!("the view has to be the stand-in or an archive: it is copied by hand, too");
    };
    let system = load_operating_system(cluster)?;
    let agent = agent(scratch.path(), binaries)?;
    if view.is_real() {
        let mpi = open_mpi(scratch.path())?;
        progress::step("loading Debian's Open MPI with a program", || {
            cluster.load_image(&mpi, &[MPI])
        })?;
    }
    progress::step("loading the view with the agent, and on a Debian", || {
        cluster.load_image(&agent.on_top(flux.clone()), &[AGENT_WITH_VIEW])?;
        cluster.load_image(&system.clone().on_top(flux.clone()), &[SYSTEM_WITH_VIEW])?;
        let moved = moved(flux.path(), scratch.path()).context("moving the view")?;
        cluster.load_image(&system.on_top(moved), &[PEER_VIEW])
    })
}

fn open_mpi(scratch: &Path) -> Result<Image> {
    let packages = ["openmpi-bin", "openssh-server"];
    let system = mpi_program(Release::Bookworm, &packages, "libopenmpi-dev")?;
    // sshd needs this directory, which an init system would make.
    let directory = [Source::link("/run/sshd/none", "/dev/null")];
    Ok(system.on_top(Layer::from_sources(scratch, &directory)?))
}

/// The view of this archive at [`PEER_PLACE`], with one Python.
fn moved(archive: &Path, scratch: &Path) -> Result<Layer> {
    let (from, to) = (scratch.join("from"), scratch.join("to"));
    let mut members = tar::Archive::new(File::open(archive)?);
    members.set_preserve_ownerships(true);
    members.unpack(&from)?;
    let view = to.join(PEER_PLACE);
    fs::create_dir_all(view.parent().unwrap_or(&to))?;
    fs::rename(from.join(VIEW), &view)?;
    keep_one_python(&view)?;
    // The operator also copies this directory, so it must exist.
    fs::create_dir_all(to.join("opt/software"))?;
    symlink("/dev/null", to.join("opt/software/none"))?;
    let path = scratch.join("peer.tar");
    pack(&to, &path)?;
    Layer::from_archive(&path)
}

fn pack(directory: &Path, archive: &Path) -> Result<()> {
    let mut members = tar::Builder::new(File::create(archive)?);
    members.follow_symlinks(false);
    members.append_dir_all("", directory)?;
    Ok(members.finish()?)
}

/// Adapts a view to the Go operator's wait.sh, which takes the only directory `lib/python3*` for Flux's modules, and
/// removes the `python3` of a view that has a program of that directory's name.
fn keep_one_python(view: &Path) -> Result<()> {
    let (lib, bin) = (view.join("lib"), view.join("bin"));
    // The stand-in has no Python.
    let Some(python) = entries(&lib).into_iter().find(|it| it.starts_with("python3.")) else {
        return Ok(());
    };
    fs::rename(bin.join(&python), bin.join("python3"))?;
    // Debian's packages are below `lib/python3`.
    let (packages, modules) = (lib.join("python3/dist-packages"), lib.join(python));
    let modules = modules.join("site-packages");
    fs::create_dir_all(&modules)?;
    for package in entries(&packages) {
        fs::rename(packages.join(&package), modules.join(&package))?;
    }
    remove_tree(&lib.join("python3"))
}

/// The names of a directory's entries; none if the directory does not exist.
fn entries(directory: &Path) -> Vec<String> {
    let entries = WalkDir::new(directory).min_depth(1).max_depth(1).into_iter();
    entries.filter_map(|it| Some(it.ok()?.file_name().to_str()?.to_owned())).collect()
}
