//! The file system as a program finds it: a view at its place at run time, its packages at theirs, and everything else
//! where an application's image has it.

use crate::system::below;
use crate::view::follow;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the paths of that file system lie on this one.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Directories as they are seen, and where they lie.
    pub mounts: Vec<(PathBuf, PathBuf)>,
    /// Where everything else lies, if there is anything else.
    pub root: Option<PathBuf>,
}

impl Places {
    /// Where `path` lies, the last link on the way not followed.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        for (seen, lies) in &self.mounts {
            if let Ok(rest) = path.strip_prefix(seen) {
                return Some(lies.components().chain(rest.components()).collect());
            }
            if seen.starts_with(path) {
                // A directory on the way to what is mounted.
                return Some(PathBuf::from("/"));
            }
        }
        self.root.as_ref().map(|root| below(root, path))
    }

    /// What `path` is once all links are followed; or what is missing.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        follow(path, &|path| self.place(path))
    }

    /// Where `path` lies, all links followed.
    fn lies(&self, path: &Path) -> Option<PathBuf> {
        self.resolve(path).ok().and_then(|resolved| self.place(&resolved))
    }

    /// Where the file `path` lies, all links followed, if it is there.
    pub fn file(&self, path: &Path) -> Option<PathBuf> {
        self.lies(path).filter(|lies| lies.is_file())
    }

    /// Where the directory `path` lies, all links followed, if it is there.
    pub fn directory(&self, path: &Path) -> Option<PathBuf> {
        self.lies(path).filter(|lies| lies.is_dir())
    }

    /// The names in the directory `path`, sorted; none where it is no directory.
    pub fn names(&self, path: &Path) -> Vec<String> {
        let entries = self.lies(path).and_then(|lies| fs::read_dir(lies).ok());
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The content of the file `path`, all links followed, if it can be read.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(self.file(path)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_from_the_view_into_the_image_around_it_and_back() {
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

        let places = Places { mounts: mounts.clone(), root: Some(image) };
        let python = Path::new("/usr/bin/python3.11");
        for path in ["/mnt/flux/view/bin/python3", "/usr/bin/flux-python"] {
            assert_eq!(places.resolve(Path::new(path)).unwrap(), python);
        }
        assert_eq!(places.read(python).unwrap(), b"python");
        assert_eq!(places.names(Path::new("/mnt/flux/view/bin")), ["python3"]);
        assert!(places.file(Path::new("/mnt/flux/view/bin")).is_none());

        let alone = Places { mounts, root: None };
        let missing = alone.resolve(Path::new("/mnt/flux/view/bin/python3")).unwrap_err();
        assert!(missing.starts_with("/usr: "), "{missing}");
        assert_eq!(alone.directory(Path::new("/mnt/flux/view/bin")).unwrap(), view.join("bin"));
    }
}
