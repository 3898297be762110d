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

    /// The path of `path` below the root. A path below the root stays the same, as paths of the shared volume are passed to
    /// other programs, which do not know the root.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        if path.starts_with(&self.0) {
            return path.to_owned();
        }
        below(&self.0, path)
    }
}

/// The path of the absolute `path` in a file system whose `/` is `directory`.
pub fn below(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path.strip_prefix("/").unwrap_or(path))
}
