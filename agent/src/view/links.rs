//! Changes symbolic links of trees that have another path at run time. An absolute link into such a tree, and a relative link
//! out of its own tree, get a new target. All others stay the same.

use std::path::{Component, Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) target: PathBuf,
    /// Whether the target is copied, too.
    pub(super) copied: bool,
}

/// The trees of the image and their paths at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkMap {
    /// Pairs of absolute paths: in the image, and at run time. A tree with several names in the image has several pairs.
    pub(super) trees: Vec<(PathBuf, PathBuf)>,
}

impl LinkMap {
    /// The path at run time of `path` in the image, if it is copied.
    pub(super) fn at_run_time(&self, path: &Path) -> Option<PathBuf> {
        self.trees.iter().find_map(|(image, run_time)| {
            let rest = path.strip_prefix(image).ok()?;
            // Joining an empty path would add a slash.
            Some(if rest.as_os_str().is_empty() { run_time.clone() } else { run_time.join(rest) })
        })
    }

    /// The new target of the link at `link` (absolute, in the image) to `target`.
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
        if component == Component::ParentDir {
            result.pop();
        } else if component != Component::CurDir {
            result.push(component);
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
        let trees = vec![
            pair(HASH, "/mnt/flux/view"),
            pair("/opt/view", "/mnt/flux/view"),
            pair("/opt/software", "/opt/software"),
        ];
        LinkMap { trees }
    }

    #[test]
    fn links_keep_their_targets_when_a_tree_moves() {
        let of_hash = format!("{HASH}/lib");
        let package = "/opt/software/flux-core-1/bin/flux";
        for (link, target, new, copied) in [
            // Packages are mounted at the same place.
            ("bin/flux", package, package, true),
            ("lib/libflux-core.so", "libflux-core.so.2", "libflux-core.so.2", true),
            ("lib64", "lib", "lib", true),
            ("bin/python", "../lib/python", "../lib/python", true),
            // Absolute links into the view follow it, whichever name they use.
            ("bin/python", "/opt/view/bin/python3", "/mnt/flux/view/bin/python3", true),
            ("a", &of_hash, "/mnt/flux/view/lib", true),
            ("a", "/opt/view", "/mnt/flux/view", true),
            // Relative links that leave the view become absolute.
            ("bin/x", "../../../../software/x", "/opt/software/x", true),
            ("bin/x", "../../../../../usr/bin/x", "/usr/bin/x", false),
            ("bin/sh", "/bin/sh", "/bin/sh", false),
            ("x", "/opt/views/other", "/opt/views/other", false),
        ] {
            let moved = spack().moved(&Path::new(HASH).join(link), Path::new(target));
            assert_eq!(moved, Moved { target: new.into(), copied }, "{link} -> {target}");
        }
    }

    #[test]
    fn links_of_a_flat_view_stay_the_same() {
        let place = PathBuf::from("/mnt/flux/view");
        let map = LinkMap { trees: vec![(place.clone(), place)] };
        for target in ["/mnt/flux/view/lib/./x", "../lib/x"] {
            let moved = map.moved(Path::new("/mnt/flux/view/bin/x"), Path::new(target));
            assert_eq!(moved, Moved { target: target.into(), copied: true });
        }
    }
}
