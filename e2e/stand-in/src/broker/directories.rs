//! `rundir`, `statedir` and the socket's directory: making, checking and removing them.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::attributes::Attributes;
use crate::failure::strerror;

/// Longest `rundir`, so that `RUNDIR/local-9999` still fits an `AF_UNIX` address.
const LONGEST_RUNDIR: usize = 96;
/// Longest socket path.
const LONGEST_SOCKET: usize = 107;

/// Directories to remove when the broker is gone.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    remove: Vec<PathBuf>,
}

impl Drop for Directories {
    fn drop(&mut self) {
        for path in &self.remove {
            // Nothing can be done about a directory that is already gone or held.
            drop(std::fs::remove_dir_all(path));
        }
    }
}

impl Directories {
    /// Sets up the directory named by attribute `name`; the error is Flux's text.
    pub(crate) fn create(
        &mut self,
        attributes: &mut Attributes,
        name: &str,
        default_parent: &str,
    ) -> Result<(), String> {
        let (path, mut made) = match attributes.get(name).map(str::to_owned) {
            None => (unique(default_parent)?, true),
            Some(path) => match std::fs::metadata(&path) {
                Err(_) => {
                    std::fs::DirBuilder::new()
                        .mode(0o700)
                        .create(&path)
                        .map_err(|error| format!("error creating {path}: {}", strerror(&error)))?;
                    (path, true)
                }
                Ok(found) if found.mode() & 0o1000 != 0 => (unique(&path)?, true),
                Ok(_) => (path, false),
            },
        };
        attributes.set(name, path.clone());
        let cleanup = format!("{name}-cleanup");
        if attributes.exists(&cleanup) {
            made = attributes.get(&cleanup).is_some_and(|value| value != "0");
        }
        if made {
            self.remove.push(PathBuf::from(&path));
        }
        check(&path)?;
        if name == "rundir" {
            link_flux(&path)?;
        }
        attributes.set(&cleanup, if made { "1" } else { "0" });
        Ok(())
    }
}

fn unique(parent: &str) -> Result<String, String> {
    let fault = |error: &std::io::Error| {
        format!("cannot create directory in {parent}: {}", strerror(error))
    };
    for attempt in 0..100_u32 {
        let path = format!("{parent}/flux-{}", letters(attempt));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(&error)),
        }
    }
    Err(format!("cannot create directory in {parent}: File exists"))
}

/// Six letters that differ from process to process and from try to try.
fn letters(attempt: u32) -> String {
    let mut seed = crate::text::uuid::number() ^ u64::from(attempt);
    (0..6)
        .map(|_| {
            let letter = b'a' + u8::try_from(seed % 26).unwrap_or_default();
            seed /= 26;
            char::from(letter)
        })
        .collect()
}

/// Checks owner and mode; the error is Flux's text.
pub(crate) fn check(path: &str) -> Result<(), String> {
    let found = std::fs::metadata(path)
        .map_err(|error| format!("cannot stat {path}: {}", strerror(&error)))?;
    if found.uid() != nix::unistd::getuid().as_raw() {
        return Err(format!("{path} is not owned by instance owner: Operation not permitted"));
    }
    if !found.is_dir() {
        return Err(format!("{path}: Not a directory"));
    }
    if found.permissions().mode() & 0o700 != 0o700 {
        return Err(format!("{path} does not have owner=rwx permissions"));
    }
    Ok(())
}

fn link_flux(path: &str) -> Result<(), String> {
    if path.len() > LONGEST_RUNDIR {
        return Err(format!(
            "length of {} bytes exceeds max {LONGEST_RUNDIR} to allow for AF_UNIX socket creation.",
            path.len()
        ));
    }
    let folder = Path::new(path).join("bin");
    if folder.exists() {
        return Ok(());
    }
    let fault = |error: &std::io::Error| format!("mkdir {path}/bin: {}", strerror(error));
    std::fs::create_dir(&folder).map_err(|error| fault(&error))?;
    let target = std::env::current_exe().map_err(|error| fault(&error))?;
    symlink(target, folder.join("flux"))
        .map_err(|error| format!("symlink {path}/bin/flux: {}", strerror(&error)))
}

/// Fills in or checks `local-uri`; the error is Flux's text.
pub(crate) fn local_uri(attributes: &mut Attributes, rank: u32) -> Result<(), String> {
    let Some(uri) = attributes.get("local-uri") else {
        let rundir = attributes.get("rundir").unwrap_or_default();
        let uri = format!("local://{rundir}/local-{rank}");
        attributes.set("local-uri", uri);
        return Ok(());
    };
    let path = uri.strip_prefix("local://").ok_or("local-uri is malformed")?;
    let parent = match Path::new(path).parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    check(&parent.to_string_lossy()).map_err(|error| format!("local-uri directory {error}"))?;
    if path.len() > LONGEST_SOCKET {
        return Err(format!(
            "local-uri length of {} bytes exceeds max {LONGEST_SOCKET} AF_UNIX socket path length",
            path.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, value) in pairs {
            attributes.set(name, *value);
        }
        attributes
    }

    #[test]
    fn a_missing_rundir_is_made_and_removed_and_an_existing_one_is_kept() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let (fresh, kept) = (folder.path().join("fresh"), folder.path().join("kept"));
        std::fs::create_dir(&kept).expect("creates");
        for (path, cleanup) in [(&fresh, "1"), (&kept, "0")] {
            let mut attributes = attributes(&[("rundir", &path.to_string_lossy())]);
            let mut directories = Directories::default();
            directories.create(&mut attributes, "rundir", "/tmp").expect("creates");
            assert_eq!(attributes.get("rundir-cleanup"), Some(cleanup));
            assert!(path.join("bin/flux").is_symlink());
        }
        assert!(!fresh.exists());
        assert!(kept.exists());
    }

    #[test]
    fn long_paths_and_missing_parents_are_refused() {
        let long = format!("/tmp/{}", "x".repeat(105));
        let mut with_long = attributes(&[("rundir", &long)]);
        let mut directories = Directories::default();
        let error = directories.create(&mut with_long, "rundir", "/tmp").expect_err("refused");
        assert!(error.starts_with("length of 110 bytes exceeds max 96"), "{error}");
        let mut nested = attributes(&[("statedir", "/nowhere/at/all")]);
        let error = directories.create(&mut nested, "statedir", "/tmp").expect_err("refused");
        assert_eq!(error, "error creating /nowhere/at/all: No such file or directory");
    }

    #[test]
    fn the_sockets_directory_must_exist() {
        let mut bad = attributes(&[("local-uri", "local:///nowhere/local")]);
        let error = local_uri(&mut bad, 0).expect_err("refused");
        assert_eq!(error, "local-uri directory cannot stat /nowhere: No such file or directory");
        let error = local_uri(&mut attributes(&[("local-uri", "/tmp/x")]), 0).expect_err("refused");
        assert_eq!(error, "local-uri is malformed");
        let mut plain = attributes(&[("rundir", "/run/x")]);
        local_uri(&mut plain, 3).expect("fills in");
        assert_eq!(plain.get("local-uri"), Some("local:///run/x/local-3"));
    }
}
