//! Putting a view in its place whose image is mounted: links, and nothing is copied.
//!
//! Every container of the pod that has the agent does this before anything else. All make the same
//! links, so it does not matter who comes first, and nobody goes on before all of them are there.

use super::error::{ViewError, failed};
use super::find::{Source, find, resolve};
use crate::system::files::{self, Attributes};
use crate::system::root::{Root, below};
use flux_contract::Layout;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes [`Layout::view`] a link to the view in the mounted image, and one link for each of its packages
/// at [`Layout::SOFTWARE_MOUNT`], where the links of a Spack view lead; then
/// [`Layout::view_done_marker`]. All paths lie below `root`.
pub fn link_view(root: &Path, layout: &Layout) -> Result<Source, ViewError> {
    let root = &Root::new(root);
    let image = root.at(layout.view_image());
    let source = find(&image, layout.mount(), None)?;
    link_software(root, layout)?;
    // Relative, so that it holds wherever the shared volume is seen.
    let inside = Path::new(layout.view_image().file_name().unwrap_or_default()).to_owned();
    link(&root.at(layout.view()), &below(&inside, &source.view))?;
    let marker = root.at(layout.view_done_marker());
    let text = format!("linked the view: {}\n", source.view.display());
    let attributes = Attributes { mode: 0o644, owner: None, durable: false };
    let made = files::create(&marker, attributes, |file| file.write_all(text.as_bytes()));
    unless_there(made.map(drop)).map_err(failed("write marker", &marker))?;
    Ok(source)
}

/// One link for each entry of the image's own directory: of one that is a link itself, to what that
/// leads to within the image.
fn link_software(root: &Root, layout: &Layout) -> Result<(), ViewError> {
    let image = root.at(layout.view_image());
    let packages = Path::new(Layout::SOFTWARE_MOUNT);
    // A flat view has its packages in it.
    let Ok(directory) = resolve(&image, packages) else { return Ok(()) };
    let directory = below(&image, &directory);
    let entries = fs::read_dir(&directory).map_err(failed("list", &directory))?;
    for entry in entries {
        let name = entry.map_err(failed("list", &directory))?.file_name();
        let named = packages.join(&name);
        // What leads nowhere in the image does so here.
        let found = resolve(&image, &named).unwrap_or(named);
        link(&root.at(packages.join(&name)), &below(&layout.view_image(), &found))?;
    }
    Ok(())
}

/// Makes `path` a link to `target` unless it is one: another container may make it at this moment, with
/// the process id that this one has. So there are no temporary names.
fn link(path: &Path, target: &Path) -> Result<(), ViewError> {
    let made = match symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::read_link(path).is_ok_and(|found| found == target) {
                return Ok(());
            }
            // Of an image that was another one when this container ran before.
            files::remove(path).and_then(|()| unless_there(symlink(target, path)))
        }
        made => made,
    };
    made.map_err(failed("make a link at", path))
}

/// Another container was quicker, with the same.
fn unless_there(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
