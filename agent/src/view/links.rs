//! What becomes of a symbolic link when the tree around it moves.
//!
//! Links within a tree that moves as a whole stay as they are, when they are relative. Absolute
//! links into a tree that is found elsewhere at run time are rewritten to lead there, and so are
//! relative links that leave their tree, since they would lead astray from its new place.
//! Absolute links to anywhere else stay as they are; whether the application's image has anything
//! there is unknown.

use std::path::{Component, Path, PathBuf};

/// Where a link leads after the move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moved {
    /// The text of the new link.
    pub(super) target: PathBuf,
    /// False when the link leads out of everything that is copied.
    pub(super) copied: bool,
}

/// Trees of the image and where each is found at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkMap {
    trees: Vec<(PathBuf, PathBuf)>,
}

impl LinkMap {
    /// `trees` are pairs of absolute paths: in the image, at run time. A tree with several names
    /// in the image comes once for each.
    pub(super) const fn new(trees: Vec<(PathBuf, PathBuf)>) -> Self {
        Self { trees }
    }

    /// True when `path` of the image is copied.
    pub(super) fn covers(&self, path: &Path) -> bool {
        self.at_run_time(path).is_some()
    }

    /// Where `path` of the image is found at run time, if it is copied.
    fn at_run_time(&self, path: &Path) -> Option<PathBuf> {
        self.trees.iter().find_map(|(image, run_time)| {
            let rest = path.strip_prefix(image).ok()?;
            // Joining an empty path would add a slash.
            Some(if rest.as_os_str().is_empty() { run_time.clone() } else { run_time.join(rest) })
        })
    }

    /// What the link at `link` (absolute, in the image) to `target` becomes.
    pub(super) fn moved(&self, link: &Path, target: &Path) -> Moved {
        let Some(directory) = link.parent() else {
            return Moved { target: target.to_owned(), copied: false };
        };
        let meant = normalized(&directory.join(target));
        let Some(new) = self.at_run_time(&meant) else {
            let target = if target.is_absolute() { target.to_owned() } else { meant };
            return Moved { target, copied: false };
        };
        let tree_stays_around = target.is_relative() && self.same_tree(link, &meant);
        let unmoved = target.is_absolute() && new == meant;
        let target = if tree_stays_around || unmoved { target.to_owned() } else { new };
        Moved { target, copied: true }
    }

    fn same_tree(&self, one: &Path, other: &Path) -> bool {
        self.trees.iter().any(|(image, _)| one.starts_with(image) && other.starts_with(image))
    }
}

/// `path` without `.` and `..`, by its text alone.
pub(super) fn normalized(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                result.push(component);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "/opt/views/._view/4f2xy";

    fn spack() -> LinkMap {
        let pair = |image: &str, run_time: &str| (PathBuf::from(image), PathBuf::from(run_time));
        LinkMap::new(vec![
            pair(HASH, "/mnt/flux/view"),
            pair("/opt/view", "/mnt/flux/view"),
            pair("/opt/software", "/opt/software"),
        ])
    }

    fn moved(link: &str, target: &str) -> (String, bool) {
        let moved = spack().moved(&Path::new(HASH).join(link), Path::new(target));
        (moved.target.display().to_string(), moved.copied)
    }

    fn unchanged(target: &str) -> (String, bool) {
        (target.to_owned(), true)
    }

    #[test]
    fn links_into_software_stay_because_it_is_mounted_at_the_same_place() {
        let target = "/opt/software/linux/flux-core-1/bin/flux";
        assert_eq!(moved("bin/flux", target), unchanged(target));
    }

    #[test]
    fn relative_links_within_the_view_stay() {
        assert_eq!(
            moved("lib/libflux-core.so", "libflux-core.so.2"),
            unchanged("libflux-core.so.2")
        );
        assert_eq!(moved("lib64", "lib"), unchanged("lib"));
        assert_eq!(moved("bin/python", "../lib/python"), unchanged("../lib/python"));
    }

    #[test]
    fn absolute_links_into_the_view_follow_it_whichever_name_they_use() {
        assert_eq!(
            moved("bin/python", "/opt/view/bin/python3"),
            unchanged("/mnt/flux/view/bin/python3")
        );
        assert_eq!(moved("a", &format!("{HASH}/lib")), unchanged("/mnt/flux/view/lib"));
        assert_eq!(moved("a", "/opt/view"), unchanged("/mnt/flux/view"));
    }

    #[test]
    fn relative_links_that_leave_the_view_become_absolute() {
        assert_eq!(moved("bin/x", "../../../../software/x"), unchanged("/opt/software/x"));
        assert_eq!(moved("bin/x", "../../../../../usr/bin/x"), ("/usr/bin/x".to_owned(), false));
    }

    #[test]
    fn links_out_of_everything_copied_stay_and_are_told_apart() {
        assert_eq!(moved("bin/sh", "/bin/sh"), ("/bin/sh".to_owned(), false));
        assert_eq!(moved("x", "/opt/views/other"), ("/opt/views/other".to_owned(), false));
    }

    #[test]
    fn a_flat_view_at_its_own_place_keeps_every_link() {
        let place = PathBuf::from("/mnt/flux/view");
        let map = LinkMap::new(vec![(place.clone(), place)]);
        for target in ["/mnt/flux/view/lib/./x", "../lib/x"] {
            let moved = map.moved(Path::new("/mnt/flux/view/bin/x"), Path::new(target));
            assert_eq!((moved.target.as_path(), moved.copied), (Path::new(target), true));
        }
    }
}
