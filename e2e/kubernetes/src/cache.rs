//! The store of things that take long to make, outside any checkout.
//!
//! An artefact is a directory named by what it was made from. It is made in a sibling directory and
//! renamed when complete, so it is either whole or absent; a file lock keeps two checkouts from making
//! it twice.

use anyhow::{Context as _, Result};
use fs_err::{self as fs, File};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// The environment variable that names the directory of the cache.
pub(crate) const CACHE_VARIABLE: &str = "FLUX_E2E_CACHE";

const DIRECTORY: &str = "flux-operator-e2e";

/// The directory that keeps artefacts and the clusters' state.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$FLUX_E2E_CACHE`, else `flux-operator-e2e` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub fn locate() -> Result<Self> {
        let root = root().with_context(|| {
            format!("finding the cache directory: neither {CACHE_VARIABLE} nor HOME is set")
        })?;
        Self::at(&root)
    }

    /// A cache below the given directory, which is made if need be.
    pub fn at(root: &Path) -> Result<Self> {
        for name in ["built", "clusters", "logs"] {
            fs::create_dir_all(root.join(name))?;
        }
        Ok(Self { root: fs::canonicalize(root)? })
    }

    /// Where finished artefacts are.
    pub fn built(&self) -> PathBuf {
        self.root.join("built")
    }

    /// Where clusters keep their state, one directory each.
    pub fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// The log of the programs that make the artefact.
    pub(crate) fn log_of(&self, key: &str) -> PathBuf {
        self.root.join("logs").join(format!("{key}.log"))
    }

    /// The artefact's directory if it is there.
    pub fn find(&self, key: &str) -> Option<PathBuf> {
        Some(self.built().join(key)).filter(|directory| directory.is_dir())
    }

    /// The artefact's directory; `make` fills it if it is not there yet.
    pub fn artefact(&self, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        // Another process may make it while this one waits for the lock.
        let _lock = lock(&self.built().join(format!(".{key}.lock")))?;
        if let Some(found) = self.find(key) {
            return Ok(found);
        }
        let partial = self.built().join(format!(".{key}.partial"));
        remove_tree(&partial)?;
        fs::create_dir_all(&partial)?;
        make(&partial).with_context(|| format!("making {key}"))?;
        let directory = self.built().join(key);
        fs::rename(&partial, &directory)?;
        Ok(directory)
    }
}

fn root() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let set = |name: &str| variable(name).map(PathBuf::from);
    set(CACHE_VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").map(|path| path.join(DIRECTORY)))
        .or_else(|| set("HOME").map(|path| path.join(".cache").join(DIRECTORY)))
}

/// Names an artefact by what it is made from: inputs with a name each; their order counts.
pub fn key(name: &str, version: &str, inputs: &[(&str, &[u8])]) -> String {
    let mut hash = Sha256::new();
    for (input, content) in inputs {
        // With the lengths two different lists cannot have the same bytes.
        hash.update(format!("{}:{input}{}:", input.len(), content.len()));
        hash.update(content);
    }
    format!("{name}-{version}-{}", &format!("{:x}", hash.finalize())[..16])
}

/// A lock, which ends when its file is closed or the process ends.
pub type Lock = File;

/// Waits for the lock at `path`, which is made if need be.
pub fn lock(path: &Path) -> Result<Lock> {
    lock_or(path, || {})
}

/// Like [`lock`]; calls `waiting` first where somebody else holds it.
pub fn lock_or(path: &Path, waiting: impl FnOnce()) -> Result<Lock> {
    let file = File::create(path)?;
    if file.try_lock().is_err() {
        waiting();
        file.lock()?;
    }
    Ok(file)
}

/// Removes a directory with its content, if it exists.
pub fn remove_tree(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artefact_is_made_once_and_never_half() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let key = key("tool", "v1", &[]);
        let broken = cache.artefact(&key, |path| {
            fs::write(path.join("half"), "")?;
            anyhow::bail!("interrupted")
        });
        assert!(broken.is_err());
        assert!(cache.find(&key).is_none());
        let made = cache.artefact(&key, |path| Ok(fs::write(path.join("it"), "1")?)).unwrap();
        assert!(!made.join("half").exists());
        assert_eq!(fs::read_to_string(made.join("it")).unwrap(), "1");
        let again = cache.artefact(&key, |_| panic!("must not be made again")).unwrap();
        assert_eq!(made, again);
    }
}
