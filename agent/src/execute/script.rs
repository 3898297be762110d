//! A text of the user as a file for a shell: as an argument it would be limited to 128 KiB (execve(2),
//! `MAX_ARG_STRLEN`), and be seen by all who see the process.

use crate::execute::error::{StepError, failed};
use crate::system::files;
use std::path::{Path, PathBuf};

/// A script in a private directory, gone when this is.
#[derive(Debug)]
pub(crate) struct PrivateScript(PathBuf);

impl PrivateScript {
    /// Writes `text` to `directory`, which is closed to others, under the `name` that complaints of the
    /// shell will show.
    pub(crate) fn write(directory: &Path, name: &str, text: &str) -> Result<Self, StepError> {
        let path = directory.join(name);
        files::write(&path, text.as_bytes(), 0o600, None).map_err(failed("write", &path))?;
        Ok(Self(path))
    }

    /// Program and arguments that run it with `shell`.
    pub(crate) fn command(&self, shell: &Path) -> [String; 2] {
        [shell.display().to_string(), self.0.display().to_string()]
    }
}

impl Drop for PrivateScript {
    fn drop(&mut self) {
        // That it stays is no harm: nobody else can read it.
        let _ = files::remove(&self.0);
    }
}
