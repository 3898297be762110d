//! A layer: a tar archive of files and its SHA-256.

use anyhow::{Context as _, Result};
use fs_err::File;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// One thing to put into a layer, at a path without a leading slash. Its parents are made; everything
/// belongs to root.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Directory,
    File(PathBuf),
    Link(PathBuf),
}

impl Source {
    /// A file of this machine, which everybody may run.
    pub fn file(path: impl AsRef<Path>, from: &Path) -> Self {
        Self::new(path.as_ref(), Content::File(from.to_owned()))
    }

    /// A symbolic link.
    pub fn link(path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::new(path.as_ref(), Content::Link(target.as_ref().to_owned()))
    }

    fn new(path: &Path, content: Content) -> Self {
        Self { path: path.strip_prefix("/").unwrap_or(path).to_owned(), content }
    }
}

/// An uncompressed tar archive on this machine, known by the SHA-256 of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    path: PathBuf,
    pub(super) digest: String,
}

impl Layer {
    /// Writes a layer of these files into `directory`. Of two sources for one path the later one counts.
    pub fn from_sources(directory: &Path, sources: &[Source]) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for source in sources {
            for parent in source.path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty()) {
                entries.entry(parent).or_insert(&Content::Directory);
            }
            entries.insert(&source.path, &source.content);
        }
        let file = tempfile::NamedTempFile::new_in(directory)?;
        let mut archive = tar::Builder::new(BufWriter::new(file.as_file()));
        for (path, content) in entries {
            append(&mut archive, path, content)
                .with_context(|| format!("adding {} to a layer", path.display()))?;
        }
        let written = archive.into_inner().and_then(|mut writer| writer.flush());
        written.with_context(|| format!("writing a layer into {}", directory.display()))?;
        let digest = digest(file.path())?;
        let path = directory.join(format!("{digest}.tar"));
        file.persist(&path)?;
        Ok(Self { path, digest })
    }

    /// The layer that a tar archive is.
    pub fn from_archive(archive: &Path) -> Result<Self> {
        Ok(Self { path: archive.to_owned(), digest: digest(archive)? })
    }

    /// Where the archive is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn digest(archive: &Path) -> Result<String> {
    // Large pieces make hashing several times as fast.
    let mut file = BufReader::with_capacity(1 << 20, File::open(archive)?);
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

fn append(archive: &mut tar::Builder<impl Write>, path: &Path, content: &Content) -> Result<()> {
    match content {
        Content::Directory => {
            let mut header = header(EntryType::Directory, 0o755, 0);
            archive.append_data(&mut header, path, io::empty())?;
        }
        Content::File(from) => {
            let file = File::open(from)?;
            let mut header = header(EntryType::Regular, 0o755, file.metadata()?.len());
            archive.append_data(&mut header, path, file)?;
        }
        Content::Link(target) => {
            archive.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)?;
        }
    }
    Ok(())
}

/// A header of a member that belongs to root and has no time.
pub(super) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}
