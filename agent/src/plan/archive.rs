//! Where the state of the instance is kept.

use crate::plan::pod::Pod;
use crate::plan::step::{ArchiveRun, Role};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Suffixes by which flux-dump(1) chooses a format; any other would be an error to it.
const FORMATS: [&str; 8] =
    [".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tar", ".zip", ".7z", ".cpio"];
/// Format where the archive's own name says none. Flux finds out by itself when it restores.
const DEFAULT_FORMAT: &str = ".tgz";

/// The lead alone keeps the state.
pub(super) fn archive(pod: Pod<'_>) -> Option<ArchiveRun> {
    let archive = pod.config.archive.as_ref().filter(|_| pod.role == Role::Lead)?;
    let path = PathBuf::from(&archive.path);
    let staging = staging(&path, &pod.facts.hostname);
    let suffix = FORMATS.into_iter().find(|suffix| archive.path.ends_with(suffix));
    let dump = staging.join(format!("dump{}", suffix.unwrap_or(DEFAULT_FORMAT)));
    Some(ArchiveRun { path, staging, dump })
}

/// In the same directory, so that the dump can be renamed; with the host's name, because several
/// clusters may share a volume.
fn staging(path: &Path, hostname: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{hostname}.new"));
    path.with_file_name(name)
}
