//! Images that only measurements use: a whole operating system with the view, as one would write it by hand.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::{Binaries, View, agent, load_operating_system, view_layer};
use crate::{
    cluster::Cluster,
    images::{
        image::Image,
        layer::{Layer, Source},
    },
    progress::Progress,
};

/// A Debian with the view at the place it was built for; it has `cp`.
pub(crate) const SYSTEM_WITH_VIEW: &str = "localhost/flux-e2e/system-with-view:1";
/// The agent's image with the view in it, which one init container copies.
pub(crate) const AGENT_WITH_VIEW: &str = "localhost/flux-e2e/agent-with-view:1";
/// A Debian with the view where the Go operator takes it from.
pub(crate) const PEER_VIEW: &str = "localhost/flux-e2e/peer-view:1";

/// Where a view lies in its archive, and is used.
const VIEW: &str = "mnt/flux/view";
/// Where the Go operator looks for a view, below a directory of any name.
const PEER_PLACE: &str = "opt/views/._view/flat";

/// Makes and loads them, and the operating system of the pods.
pub(crate) fn load(
    cluster: &Cluster,
    binaries: &Binaries,
    view: &View,
    progress: &Progress,
) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for image layers")?;
    let Some(flux) = view_layer(view, scratch.path(), binaries)? else {
        bail!("the view has to be the stand-in or an archive: it is copied by hand, too");
    };
    let system = load_operating_system(cluster, progress)?;
    let config = system.config().clone();
    let agent = agent(scratch.path(), binaries)?;
    progress.step("loading the view, alone, with the agent and on a Debian", || {
        let entrypoint = agent.config().clone();
        cluster.load_image(&agent.on_top(flux.clone(), entrypoint), &[AGENT_WITH_VIEW])?;
        let alone = Image::new(vec![flux.clone()], config.clone());
        cluster.load_image(&alone, &[view.image()])?;
        cluster.load_image(&system.on_top(flux.clone(), config.clone()), &[SYSTEM_WITH_VIEW])?;
        let moved = Layer::from_archive(&moved(flux.path(), scratch.path())?)?;
        // What it copies besides: nothing here, but it has to be there.
        let software = Source::link("/opt/software/none", "/dev/null");
        let software = Layer::from_sources(scratch.path(), &[software])?;
        let peer = system.on_top(moved, config.clone()).on_top(software, config.clone());
        cluster.load_image(&peer, &[PEER_VIEW])
    })
}

/// The same archive with the view at [`PEER_PLACE`], and with one Python, as the Go operator's wait.sh wants it:
/// it takes the only directory `lib/python3*` for Flux's modules, and removes the `python3` of a view that has
/// a program of that directory's name.
fn moved(archive: &Path, scratch: &Path) -> Result<PathBuf> {
    let path = scratch.join("peer.tar");
    let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    let mut to = tar::Builder::new(BufWriter::new(file));
    let modules = modules(archive)?;
    for entry in open(archive)?.entries().context("reading the view")? {
        let mut entry = entry.context("reading the view")?;
        let mut header = entry.header().clone();
        let Some(member) = member(&entry.path()?, &modules) else { continue };
        if let Some(target) = entry.link_name()? {
            if member.ends_with("bin/python3") {
                continue;
            }
            // A hard link names a member of the archive, a symbolic one a place in the pod.
            let hard = header.entry_type().is_hard_link();
            let target = Some(target.to_path_buf())
                .filter(|_| !hard)
                .or_else(|| self::member(&target, &modules));
            to.append_link(&mut header, &member, target.unwrap_or_default())?;
        } else {
            to.append_data(&mut header, &member, &mut entry)?;
        }
    }
    to.into_inner().and_then(|mut writer| writer.flush()).context("writing the moved view")?;
    Ok(path)
}

fn open(archive: &Path) -> Result<tar::Archive<BufReader<File>>> {
    let file = File::open(archive).with_context(|| format!("opening {}", archive.display()))?;
    Ok(tar::Archive::new(BufReader::new(file)))
}

/// Where the view's Python, if it has one, has its modules: `lib/python3.N/site-packages`.
fn modules(archive: &Path) -> Result<PathBuf> {
    for entry in open(archive)?.entries().context("reading the view")? {
        let entry = entry.context("reading the view")?;
        let path = entry.path()?;
        let below = path.strip_prefix("./").unwrap_or(&path).strip_prefix(VIEW);
        let below = below.ok().and_then(|it| it.strip_prefix("lib").ok()).map(Path::components);
        let first = below.and_then(|mut it| it.next()).map(|it| PathBuf::from(it.as_os_str()));
        if let Some(python) = first.filter(|it| it.to_string_lossy().starts_with("python3.")) {
            return Ok(Path::new("lib").join(python).join("site-packages"));
        }
    }
    // The stand-in has no Python.
    Ok(PathBuf::from("lib/python3/dist-packages"))
}

/// Where a member of the view's archive goes; nowhere if it is not below the view. Debian's
/// `lib/python3/dist-packages` becomes part of `modules`.
fn member(path: &Path, modules: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix("./").unwrap_or(path).strip_prefix(VIEW).ok()?;
    let program = below.strip_prefix("bin").ok().and_then(Path::to_str).unwrap_or_default();
    let is_python = program.starts_with("python3.") && !program.ends_with("config");
    let below = match below.strip_prefix("lib/python3") {
        Ok(packages) => modules.join(packages.strip_prefix("dist-packages").ok()?),
        Err(_) if is_python => PathBuf::from("bin/python3"),
        Err(_) => below.to_path_buf(),
    };
    Some(Path::new(PEER_PLACE).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_is_moved_and_keeps_one_python() {
        let moved = |path: &str| {
            let place = member(Path::new(path), Path::new("lib/python3.11/site-packages"))?;
            Some(place.strip_prefix(PEER_PLACE).unwrap().display().to_string())
        };
        assert_eq!(moved("./mnt/flux/view/bin/flux").unwrap(), "bin/flux");
        assert_eq!(moved("mnt/flux/view/bin/python3.11").unwrap(), "bin/python3");
        assert_eq!(moved("mnt/flux/view/lib/x").unwrap(), "lib/x");
        assert_eq!(
            moved("mnt/flux/view/lib/python3/dist-packages/ply/lex.py").unwrap(),
            "lib/python3.11/site-packages/ply/lex.py"
        );
        assert_eq!(moved("mnt/flux/view/lib/python3"), None);
        assert_eq!(moved("mnt/flux/view/lib/python3.11/os.py").unwrap(), "lib/python3.11/os.py");
        assert_eq!(moved("mnt"), None);
    }
}
