//! Finds Flux in a view image.

use super::error::ViewError;
use super::links::normalized;
use crate::system::root::below;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// The directory of views in the published images; the name of each view is a hash.
const SPACK_VIEWS: &str = "/opt/views/._view";
/// Links to the same view.
const SPACK_NAMES: [&str; 2] = [OPT_VIEW, "/opt/views/view"];
/// The path of a flat view.
const OPT_VIEW: &str = "/opt/view";
/// The file that every Flux installation has.
const FLUX: &str = "bin/flux";
/// How many links are followed, as many as the kernel follows (`path_resolution(7)`).
const LINK_LIMIT: usize = 40;

/// The layout of a view image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceLayout {
    /// A view of Spack, with links into a tree of packages.
    Spack,
    /// One prefix with everything, at its path at run time.
    AtMountPath,
    /// One prefix at /opt/view.
    OptView,
    /// The prefix that the caller named.
    Given,
}

/// A view in an image. All paths are paths of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The installation prefix, without links on the way to it.
    pub view: PathBuf,
    /// Other names of the prefix, which links may use.
    pub names: Vec<PathBuf>,
    /// The program bin/flux, after all links.
    pub flux: PathBuf,
    /// The layout of the image.
    pub layout: SourceLayout,
}

/// Finds Flux in the image below `root`: at `given` if that is set; otherwise in the layout of the published images, at the
/// view's path at run time below `mount_path`, and at /opt/view.
pub fn find(root: &Path, mount_path: &Path, given: Option<&Path>) -> Result<Source, ViewError> {
    let mut searched = Vec::new();
    let mut candidates = Vec::new();
    if let Some(given) = given {
        candidates.push((normalized(given), SourceLayout::Given));
    } else {
        match spack_view(root) {
            Ok(view) => candidates.push((view, SourceLayout::Spack)),
            Err(reason) => searched.push(format!("{SPACK_VIEWS} ({reason})")),
        }
        candidates.push((mount_path.join("view"), SourceLayout::AtMountPath));
        candidates.push((OPT_VIEW.into(), SourceLayout::OptView));
    }
    for (place, layout) in candidates {
        match check(root, &place, layout) {
            Ok(source) => return Ok(source),
            Err(reason) => searched.push(format!("{} ({reason})", place.display())),
        }
    }
    Err(ViewError::NotFound { searched })
}

/// The view of a published image. If there are several, /opt/view selects one.
fn spack_view(root: &Path) -> Result<PathBuf, String> {
    let place = Path::new(SPACK_VIEWS);
    let entries = fs::read_dir(below(root, place)).map_err(|error| error.to_string())?;
    let is_real = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let views = entries.flatten().filter(is_real).map(|entry| place.join(entry.file_name()));
    let mut views: Vec<PathBuf> = views.filter(|view| has_flux(root, view)).collect();
    views.sort();
    let current = resolve(root, Path::new(OPT_VIEW)).ok();
    match (views.as_slice(), current) {
        ([], _) => Err(format!("no directory in it has {FLUX}")),
        ([only], _) => Ok(only.clone()),
        (several, Some(current)) if several.contains(&current) => Ok(current),
        (several, _) => {
            let names: Vec<_> = several.iter().map(|view| view.display().to_string()).collect();
            Err(format!("several views: {}; {OPT_VIEW} leads to none of them", names.join(", ")))
        }
    }
}

/// Whether `view` has a bin/flux, which may be a broken link. The directory may be a link of the image.
fn has_flux(root: &Path, view: &Path) -> bool {
    let programs = resolve(root, &view.join("bin"));
    programs.is_ok_and(|bin| below(root, &bin.join("flux")).symlink_metadata().is_ok())
}

fn check(root: &Path, place: &Path, layout: SourceLayout) -> Result<Source, String> {
    let view = resolve(root, place)?;
    let flux = resolve(root, &view.join(FLUX)).map_err(|reason| format!("{FLUX}: {reason}"))?;
    let mut names = SPACK_NAMES.map(PathBuf::from).to_vec();
    if !names.iter().any(|name| name == place) {
        names.push(place.to_owned());
    }
    names.retain(|name| *name != view && resolve(root, name).is_ok_and(|other| other == view));
    Ok(Source { view, names, flux, layout })
}

/// Follows all links in `path` of the image below `root`, see [`follow`].
pub(super) fn resolve(root: &Path, path: &Path) -> Result<PathBuf, String> {
    follow(path, &|path| Some(below(root, path)))
}

/// Follows all links in `path` of a file system. `host_path` returns the path of its files on this one. The error names the
/// missing file.
pub fn follow(
    path: &Path,
    host_path: &dyn Fn(&Path) -> Option<PathBuf>,
) -> Result<PathBuf, String> {
    let mut done = PathBuf::from("/");
    let mut todo: Vec<PathBuf> = parts(path);
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == Path::new("..") {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let failed = |error: io::Error| format!("{}: {error}", next.display());
        let file = host_path(&next).ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        let kind = fs::symlink_metadata(&file).map_err(failed)?.file_type();
        if !kind.is_symlink() {
            done = next;
            continue;
        }
        links += 1;
        if links > LINK_LIMIT {
            return Err(format!("{}: too many links", next.display()));
        }
        let target = fs::read_link(&file).map_err(failed)?;
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        todo.extend(parts(&target));
    }
    Ok(done)
}

/// The components of `path`, last first, without the root.
fn parts(path: &Path) -> Vec<PathBuf> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let parts = relative.components().filter(|part| *part != Component::CurDir);
    parts.rev().map(|part| part.as_os_str().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const MOUNT: &str = "/mnt/flux";

    /// An image with the given files and links (`path -> target`).
    fn image(entries: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for entry in entries {
            let (path, target) =
                entry.split_once(" -> ").map_or((*entry, None), |(p, t)| (p, Some(t)));
            let path = below(root.path(), Path::new(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match target {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, "").unwrap(),
            }
        }
        root
    }

    fn find_in(root: &tempfile::TempDir) -> Result<Source, ViewError> {
        find(root.path(), Path::new(MOUNT), None)
    }

    #[test]
    fn each_layout_is_found_with_its_other_names() {
        use SourceLayout::{AtMountPath, OptView, Spack};
        let published = [
            "/opt/software/flux/bin/flux",
            "/opt/views/._view/abc/bin/flux -> /opt/software/flux/bin/flux",
            "/opt/views/view -> ._view/abc",
            "/opt/view -> views/view",
        ];
        let several = [
            "/opt/views/._view/abc/bin/flux",
            "/opt/views/._view/def/bin/flux",
            "/opt/views/._view/empty/share/x",
            "/opt/view -> /opt/views/._view/def",
        ];
        let names = ["/opt/view", "/opt/views/view"];
        for (entries, view, names, layout) in [
            (&published[..], "/opt/views/._view/abc", &names[..], Spack),
            (&several, "/opt/views/._view/def", &names[..1], Spack),
            (&["/mnt/flux/view/bin/flux"], "/mnt/flux/view", &[], AtMountPath),
            (&["/opt/view/bin/flux"], "/opt/view", &[], OptView),
        ] {
            let source = find_in(&image(entries)).unwrap();
            assert_eq!((source.view.as_path(), source.layout), (Path::new(view), layout));
            assert_eq!(source.names, names.iter().map(PathBuf::from).collect::<Vec<_>>());
            let linked = Path::new("/opt/software/flux/bin/flux");
            let own = source.view.join("bin/flux");
            assert_eq!(source.flux, if entries == published { linked } else { &own });
        }
    }

    #[test]
    fn only_the_given_prefix_is_searched() {
        let root = image(&["/opt/view/bin/flux", "/usr/bin/flux"]);
        let given = |place| find(root.path(), Path::new(MOUNT), Some(Path::new(place)));
        assert_eq!(given("/usr").unwrap().view, Path::new("/usr"));
        let Err(ViewError::NotFound { searched }) = given("/srv") else { panic!() };
        assert_eq!(searched.len(), 1);
    }

    #[test]
    fn the_error_has_every_searched_path_and_its_problem() {
        let places = ["/opt/views/._view", "/mnt/flux/view", "/opt/view", "published view image"];
        let several = ["/opt/views/._view/abc/bin/flux", "/opt/views/._view/def/bin/flux"];
        let dangling = ["/opt/view/bin/flux -> /opt/software/gone/flux"];
        for (entries, texts) in [
            (&["/etc/passwd"][..], &places[..]),
            (&several, &["several views: /opt/views/._view/abc, "]),
            (&dangling, &["/opt/view (bin/flux: /opt/software: No such file"]),
            (&["/opt/view -> /opt/other", "/opt/other -> /opt/view"], &["too many links"]),
        ] {
            let message = find_in(&image(entries)).unwrap_err().to_string();
            for text in texts {
                assert!(message.contains(text), "{message}");
            }
        }
    }
}
