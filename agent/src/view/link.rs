//! Links to the agent and the view, if their images are mounted.
//!
//! The runner's agent makes the links before anything else. Sidecars, which cannot write to the shared volume, wait for
//! them.

use super::error::{ViewError, failed};
use super::find::{Source, find, resolve};
use crate::system::files;
use crate::system::root::{Root, below};
use flux_contract::{AGENT_MOUNT, Layout, VIEW_MOUNT};
use std::fs;
use std::path::Path;

/// Makes [`Layout::bin_dir`] a link to the mounted image of the agent.
pub(crate) fn link_agent(root: &Root, layout: &Layout) -> Result<(), ViewError> {
    link(&root.at(layout.bin_dir()), &root.at(AGENT_MOUNT))
}

/// Makes [`Layout::view`] a link to the view in the mounted image, and a link for each of its packages at
/// [`Layout::SOFTWARE_MOUNT`], the target of the links of a Spack view. Then writes [`Layout::view_done_marker`]. All paths
/// are below `root`.
pub fn link_view(root: &Path, layout: &Layout) -> Result<Source, ViewError> {
    let root = &Root::new(root);
    let image = root.at(VIEW_MOUNT);
    let source = find(&image, Path::new(layout.mount()), None)?;
    link_software(root, &image)?;
    link(&root.at(layout.view()), &below(&image, &source.view))?;
    let marker = root.at(layout.view_done_marker());
    let text = format!("linked the view: {}\n", source.view.display());
    files::write(&marker, text.as_bytes(), 0o644, None).map_err(failed("write marker", &marker))?;
    Ok(source)
}

/// Makes a link for each entry of the image's directory of packages, to its target in the image if the entry is a link.
fn link_software(root: &Root, image: &Path) -> Result<(), ViewError> {
    let packages = Path::new(Layout::SOFTWARE_MOUNT);
    // A flat view contains its packages.
    let Ok(directory) = resolve(image, packages) else { return Ok(()) };
    let directory = below(image, &directory);
    let entries = fs::read_dir(&directory).map_err(failed("list", &directory))?;
    for entry in entries {
        let name = entry.map_err(failed("list", &directory))?.file_name();
        let named = packages.join(&name);
        // A broken link of the image stays broken.
        let found = resolve(image, &named).unwrap_or(named);
        link(&root.at(packages.join(&name)), &below(image, &found))?;
    }
    Ok(())
}

fn link(path: &Path, target: &Path) -> Result<(), ViewError> {
    if fs::read_link(path).is_ok_and(|found| found == target) {
        return Ok(());
    }
    files::link(path, target).map_err(failed("make a link at", path))
}
