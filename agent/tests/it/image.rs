//! Made-up images of views.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where the published images have their view.
pub(crate) const HASH: &str = "opt/views/._view/4f2xy";

/// An image below a directory.
pub(crate) struct Image(pub(crate) PathBuf);

impl Image {
    /// Where `path` lies, in a directory that is made if it is missing.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(&self, path: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.at(path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        symlink(target, self.at(path)).unwrap();
    }

    /// A view as the published images have it.
    pub(crate) fn spack(&self) {
        self.file("opt/software/flux-core/bin/flux", "the flux program", 0o755);
        self.file("opt/software/flux-core/libexec/flux-imp", "setuid", 0o4755);
        self.link(&format!("{HASH}/bin/flux"), "/opt/software/flux-core/bin/flux");
        self.file(&format!("{HASH}/etc/flux/rc1"), "rc", 0o640);
        self.link(&format!("{HASH}/bin/python"), "/opt/view/bin/python3");
        self.file(&format!("{HASH}/bin/python3"), "python", 0o755);
        self.link("opt/view", "/opt/views/._view/4f2xy");
    }
}
