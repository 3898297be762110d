//! `rundir`, `statedir` and the socket's directory: making, checking and removing them.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::attributes::Attributes;
use crate::failure::strerror;

/// Longest path of an `AF_UNIX` socket.
const LONGEST_SOCKET: usize = 107;

/// Directories that were made here, to be removed when the broker is gone.
#[derive(Debug, Default)]
pub(crate) struct Directories(Vec<PathBuf>);

impl Drop for Directories {
    fn drop(&mut self) {
        for path in &self.0 {
            // Nothing can be done about a directory that is already gone or held.
            drop(std::fs::remove_dir_all(path));
        }
    }
}

impl Directories {
    /// Sets up the directory at `path`, which attribute `name` names.
    pub(crate) fn create(&mut self, name: &str, path: &str) -> Result<(), String> {
        if !Path::new(path).exists() {
            let made = std::fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(|error| format!("{name} error creating {path}: {}", strerror(&error)))?;
            self.0.push(PathBuf::from(path));
        }
        check(Path::new(path)).map_err(|error| format!("{name} {error}"))
    }
}

/// Checks type, owner and mode.
fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = std::fs::metadata(path)
        .map_err(|error| format!("cannot stat {shown}: {}", strerror(&error)))?;
    let owned = found.uid() == nix::unistd::getuid().as_raw();
    if !owned || !found.is_dir() || found.permissions().mode() & 0o700 != 0o700 {
        return Err(format!("{shown} is no directory of the instance owner with owner=rwx"));
    }
    Ok(())
}

/// Fills in or checks `local-uri`, and returns the path of the socket.
pub(crate) fn local_socket(attributes: &mut Attributes, rank: u32) -> Result<String, String> {
    if !attributes.exists("local-uri") {
        let rundir = attributes.get("rundir").unwrap_or_default();
        let uri = format!("local://{rundir}/local-{rank}");
        attributes.set("local-uri", uri);
    }
    let uri = attributes.get("local-uri").unwrap_or_default();
    let path = uri.strip_prefix("local://").ok_or("local-uri is malformed")?;
    let parent = Path::new(path).parent().ok_or("local-uri is malformed")?;
    check(parent).map_err(|error| format!("local-uri directory {error}"))?;
    if path.len() > LONGEST_SOCKET {
        let text = format!("exceeds max {LONGEST_SOCKET} AF_UNIX socket path length");
        return Err(format!("local-uri length of {} bytes {text}", path.len()));
    }
    Ok(path.to_owned())
}
