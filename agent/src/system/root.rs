//! The file system in which the paths of a plan are looked up.

use std::path::{Path, PathBuf};

/// Directory that stands for `/`: the real one in a pod, a temporary one in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The root at `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Where `path` lies. A path that lies below the root already stays as it is: the shared
    /// volume's own paths are handed to other programs, which know nothing of this root.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if path.starts_with(&self.0) {
            return path.to_owned();
        }
        below(&self.0, path)
    }
}

/// Where the absolute `path` lies in the file system whose `/` is `directory`.
pub fn below(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path.strip_prefix("/").unwrap_or(path))
}
