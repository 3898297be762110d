//! Simulated images of views.

use crate::prelude::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// The path of the view in the published images.
pub(crate) const HASH: &str = "opt/views/._view/4f2xy";

/// The file system of a pod with the mounted image of a view, the shared volume, and the packages' mount.
pub(crate) struct Scene(TempDir);

impl Scene {
    pub(crate) fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        for directory in ["mnt/flux", "flux_operator/view", "opt/software"] {
            fs::create_dir_all(scene.at(directory)).unwrap();
        }
        scene
    }

    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// The path of `path` in the image, in a directory that is created if it is missing.
    pub(crate) fn in_image(&self, path: &str) -> PathBuf {
        let path = self.at("flux_operator/view").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(&self, path: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.in_image(path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        symlink(target, self.in_image(path)).unwrap();
    }

    /// A flat view with the program alone.
    pub(crate) fn flat() -> Self {
        let scene = Self::new();
        scene.file("opt/view/bin/flux", "", 0o755);
        scene
    }

    pub(crate) fn published() -> Self {
        let scene = Self::new();
        scene.file("opt/software/flux-core/bin/flux", "the flux program", 0o755);
        scene.file("opt/software/flux-core/libexec/flux-imp", "setuid", 0o4755);
        scene.link(&format!("{HASH}/bin/flux"), "/opt/software/flux-core/bin/flux");
        scene.file(&format!("{HASH}/etc/flux/rc1"), "rc", 0o640);
        scene.link(&format!("{HASH}/bin/python"), "/opt/view/bin/python3");
        scene.file(&format!("{HASH}/bin/python3"), "python", 0o755);
        scene.link("opt/view", "/opt/views/._view/4f2xy");
        scene
    }
}
