//! The file system of a pod before the pod exists: a view and its packages at their paths at run time, around them the
//! image of an application.

use crate::system::below;
use crate::view::follow;
use std::fs;
use std::path::{Path, PathBuf};

/// A file system whose files are in other directories of this one.
#[derive(Debug, Clone, Default)]
pub struct Sysroot {
    /// Pairs of a directory of the file system and the directory that contains its files here.
    pub mounts: Vec<(PathBuf, PathBuf)>,
    /// The directory with all other files, if there are any.
    pub root: Option<PathBuf>,
}

impl Sysroot {
    /// The path of `path` on this file system. The last component may be a link.
    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        for (directory, files) in &self.mounts {
            if let Ok(rest) = path.strip_prefix(directory) {
                return Some(files.components().chain(rest.components()).collect());
            }
            if directory.starts_with(path) {
                // A parent of a mounted directory: any directory will do.
                return Some(PathBuf::from("/"));
            }
        }
        self.root.as_ref().map(|root| below(root, path))
    }

    /// Follows all links in `path`. The error names the missing file.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        follow(path, &|path| self.host_path(path))
    }

    /// The path of `path` on this file system, after all links.
    fn locate(&self, path: &Path) -> Option<PathBuf> {
        self.resolve(path).ok().and_then(|resolved| self.host_path(&resolved))
    }

    /// The path of the file `path` on this file system, after all links, if the file exists.
    pub fn file(&self, path: &Path) -> Option<PathBuf> {
        self.locate(path).filter(|path| path.is_file())
    }

    /// The path of the directory `path` on this file system, after all links, if the directory exists.
    pub fn directory(&self, path: &Path) -> Option<PathBuf> {
        self.locate(path).filter(|path| path.is_dir())
    }

    /// The sorted names in the directory `path`; none if it does not exist.
    pub fn names(&self, path: &Path) -> Vec<String> {
        let entries = self.locate(path).and_then(|path| fs::read_dir(path).ok());
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The contents of the file `path`, after all links, if it can be read.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(self.file(path)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_between_the_view_and_the_image_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (view, image) = (directory.path().join("view"), directory.path().join("image"));
        for path in [view.join("bin"), image.join("usr/bin")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(image.join("usr/bin/python3.11"), "python").unwrap();
        symlink("python3.11", image.join("usr/bin/python3")).unwrap();
        symlink("/usr/bin/python3", view.join("bin/python3")).unwrap();
        symlink("/mnt/flux/view/bin/python3", image.join("usr/bin/flux-python")).unwrap();
        let mounts = vec![(PathBuf::from("/mnt/flux/view"), view.clone())];

        let sysroot = Sysroot { mounts: mounts.clone(), root: Some(image) };
        let python = Path::new("/usr/bin/python3.11");
        for path in ["/mnt/flux/view/bin/python3", "/usr/bin/flux-python"] {
            assert_eq!(sysroot.resolve(Path::new(path)).unwrap(), python);
        }
        assert_eq!(sysroot.read(python).unwrap(), b"python");
        assert_eq!(sysroot.names(Path::new("/mnt/flux/view/bin")), ["python3"]);
        assert!(sysroot.file(Path::new("/mnt/flux/view/bin")).is_none());

        let alone = Sysroot { mounts, root: None };
        let missing = alone.resolve(Path::new("/mnt/flux/view/bin/python3")).unwrap_err();
        assert!(missing.starts_with("/usr: "), "{missing}");
        assert_eq!(alone.directory(Path::new("/mnt/flux/view/bin")).unwrap(), view.join("bin"));
    }
}
