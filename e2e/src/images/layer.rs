//! A layer: a tar archive of files and its SHA-256.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::cache::hexadecimal;

/// The first bytes of a gzip file: RFC 1952 section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// One thing to put into a layer, at a path without a leading slash. Parents that are not given are made
/// with mode 0755; everything belongs to root unless [`Source::owned_by`] says otherwise.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    kind: Kind,
    mode: u32,
    owner: (u64, u64),
}

#[derive(Debug, Clone)]
enum Kind {
    File(PathBuf),
    Content(Vec<u8>),
    Directory,
    Link(PathBuf),
    Tree(PathBuf),
}

impl Source {
    /// A file of this machine.
    pub fn file(path: impl AsRef<Path>, from: &Path, mode: u32) -> Self {
        Self::new(path.as_ref(), Kind::File(from.to_owned()), mode)
    }

    /// A file with this content.
    pub fn content(path: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) -> Self {
        Self::new(path.as_ref(), Kind::Content(content.as_ref().to_vec()), mode)
    }

    /// A directory.
    pub fn directory(path: impl AsRef<Path>, mode: u32) -> Self {
        Self::new(path.as_ref(), Kind::Directory, mode)
    }

    /// A symbolic link.
    pub fn link(path: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        Self::new(path.as_ref(), Kind::Link(target.as_ref().to_owned()), 0o777)
    }

    /// A directory of this machine with everything in it, each file with the mode it has there.
    pub fn tree(path: impl AsRef<Path>, from: &Path) -> Self {
        Self::new(path.as_ref(), Kind::Tree(from.to_owned()), 0o755)
    }

    /// The same for another user and group, by number.
    #[must_use]
    pub fn owned_by(mut self, user: u64, group: u64) -> Self {
        self.owner = (user, group);
        self
    }

    fn new(path: &Path, kind: Kind, mode: u32) -> Self {
        let path = path.strip_prefix("/").unwrap_or(path).to_owned();
        Self { path, kind, mode, owner: (0, 0) }
    }

    /// Itself, or for a tree everything in it.
    fn expand(&self) -> Result<Vec<Self>> {
        let Kind::Tree(from) = &self.kind else { return Ok(vec![self.clone()]) };
        let mut all = Vec::new();
        if !self.path.as_os_str().is_empty() {
            all.push(Self { kind: Kind::Directory, mode: mode_of(from)?, ..self.clone() });
        }
        let entries = fs::read_dir(from).with_context(|| format!("listing {}", from.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {}", from.display()))?;
            let path = entry.path();
            let kind =
                entry.file_type().with_context(|| format!("looking at {}", path.display()))?;
            let below = |kind, mode| Self {
                path: self.path.join(entry.file_name()),
                kind,
                mode,
                owner: self.owner,
            };
            if kind.is_symlink() {
                let target = fs::read_link(&path)
                    .with_context(|| format!("reading the link {}", path.display()))?;
                all.push(below(Kind::Link(target), 0o777));
            } else if kind.is_dir() {
                all.extend(below(Kind::Tree(path), 0o755).expand()?);
            } else if kind.is_file() {
                let mode = mode_of(&path)?;
                all.push(below(Kind::File(path), mode));
            } else {
                bail!("{} is no file, directory or link", path.display());
            }
        }
        Ok(all)
    }
}

fn mode_of(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(metadata.permissions().mode() & 0o7777)
}

/// An uncompressed tar archive on this machine, known by the SHA-256 of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    path: PathBuf,
    digest: String,
}

impl Layer {
    /// Writes a layer of these files into `directory`. Of two sources for one path the later one counts.
    pub fn from_sources(directory: &Path, sources: &[Source]) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for source in sources {
            for entry in source.expand()? {
                entries.insert(entry.path.clone(), entry);
            }
        }
        for parent in missing_parents(&entries) {
            entries.insert(parent.clone(), Source::directory(parent, 0o755));
        }
        write_layer(directory, |writer| {
            let mut archive = tar::Builder::new(writer);
            for entry in entries.values() {
                append(&mut archive, entry)
                    .with_context(|| format!("adding {} to a layer", entry.path.display()))?;
            }
            archive.finish().context("finishing a layer")
        })
    }

    /// The layer that a tar archive is; one that is compressed by gzip is unpacked into `directory` first.
    pub fn from_archive(directory: &Path, archive: &Path) -> Result<Self> {
        let reading = || format!("reading the archive {}", archive.display());
        let mut file = File::open(archive).with_context(reading)?;
        let mut start = [0; 2];
        file.read_exact(&mut start).with_context(reading)?;
        let file = BufReader::new(File::open(archive).with_context(reading)?);
        if start == GZIP {
            return write_layer(directory, |writer| {
                io::copy(&mut GzDecoder::new(file), writer).with_context(reading).map(drop)
            });
        }
        let mut hashing = Hashing { inner: io::sink(), hash: Sha256::new() };
        copy(file, &mut hashing).with_context(reading)?;
        Ok(Self { path: archive.to_owned(), digest: hexadecimal(&hashing.hash.finalize()) })
    }

    /// A layer whose digest was found out earlier.
    pub(super) fn known(path: PathBuf, digest: String) -> Self {
        Self { path, digest }
    }

    /// The SHA-256 of the archive in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Where the archive is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn missing_parents(entries: &BTreeMap<PathBuf, Source>) -> BTreeSet<PathBuf> {
    entries
        .keys()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|parent| !parent.as_os_str().is_empty() && !entries.contains_key(*parent))
        .map(Path::to_owned)
        .collect()
}

fn write_layer(
    directory: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<Layer> {
    let writing = || format!("writing a layer into {}", directory.display());
    let file = tempfile::NamedTempFile::new_in(directory).with_context(writing)?;
    let mut hashing =
        Hashing { inner: BufWriter::with_capacity(1 << 20, file), hash: Sha256::new() };
    write(&mut hashing)?;
    let digest = hexadecimal(&hashing.hash.finalize());
    let file = hashing.inner.into_inner().map_err(io::IntoInnerError::into_error);
    let path = directory.join(format!("{digest}.tar"));
    file.with_context(writing)?.persist(&path).with_context(writing)?;
    Ok(Layer { path, digest })
}

fn append(archive: &mut tar::Builder<&mut dyn Write>, entry: &Source) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(entry.owner.0);
    header.set_gid(entry.owner.1);
    header.set_mtime(0);
    header.set_size(0);
    match &entry.kind {
        Kind::File(from) => {
            let file = File::open(from).with_context(|| format!("opening {}", from.display()))?;
            let length =
                file.metadata().with_context(|| format!("looking at {}", from.display()))?.len();
            header.set_entry_type(EntryType::Regular);
            header.set_size(length);
            archive.append_data(&mut header, &entry.path, file)?;
        }
        Kind::Content(content) => {
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, &entry.path, content.as_slice())?;
        }
        Kind::Directory => {
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, &entry.path, io::empty())?;
        }
        Kind::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            archive.append_link(&mut header, &entry.path, target)?;
        }
        Kind::Tree(from) => bail!("the directory {} was not expanded", from.display()),
    }
    Ok(())
}

/// Copies in large pieces, which makes hashing several times as fast.
fn copy(mut from: impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(layer: &Layer) -> Vec<String> {
        let mut archive = tar::Archive::new(File::open(layer.path()).unwrap());
        let line = |entry: tar::Entry<'_, File>| {
            let header = entry.header();
            let target = entry.link_name().unwrap();
            format!(
                "{:o} {}:{} {}{}",
                header.mode().unwrap(),
                header.uid().unwrap(),
                header.gid().unwrap(),
                entry.path().unwrap().display(),
                target.map(|to| format!(" -> {}", to.display())).unwrap_or_default(),
            )
        };
        archive.entries().unwrap().map(|entry| line(entry.unwrap())).collect()
    }

    #[test]
    fn a_layer_holds_its_sources_sorted_and_with_parents() {
        let directory = tempfile::tempdir().unwrap();
        let sources = [
            Source::content("/usr/bin/tool", "x", 0o755),
            Source::link("bin", "usr/bin"),
            Source::directory("home/flux", 0o700).owned_by(1000, 1000),
        ];
        let layer = Layer::from_sources(directory.path(), &sources).unwrap();
        insta::assert_snapshot!(listing(&layer).join("\n"), @r"
        777 0:0 bin -> usr/bin
        755 0:0 home
        700 1000:1000 home/flux
        755 0:0 usr
        755 0:0 usr/bin
        755 0:0 usr/bin/tool
        ");
    }

    #[test]
    fn a_tree_is_taken_with_modes_and_links() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/run"), "x").unwrap();
        fs::set_permissions(tree.join("sub/run"), fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("sub/run", tree.join("run")).unwrap();
        let layer =
            Layer::from_sources(directory.path(), &[Source::tree("opt/tool", &tree)]).unwrap();
        insta::assert_snapshot!(listing(&layer).join("\n"), @r"
        755 0:0 opt
        755 0:0 opt/tool
        777 0:0 opt/tool/run -> sub/run
        755 0:0 opt/tool/sub
        750 0:0 opt/tool/sub/run
        ");
    }

    #[test]
    fn the_same_files_are_the_same_layer() {
        let directory = tempfile::tempdir().unwrap();
        let source = |text: &str| Source::content("a", text, 0o644);
        let first = Layer::from_sources(directory.path(), &[source("1")]).unwrap();
        let again = Layer::from_sources(directory.path(), &[source("0"), source("1")]).unwrap();
        assert_eq!(first, again);
    }

    #[test]
    fn a_compressed_archive_is_the_layer_it_holds() {
        let directory = tempfile::tempdir().unwrap();
        let plain =
            Layer::from_sources(directory.path(), &[Source::content("a", "1", 0o644)]).unwrap();
        let compressed = directory.path().join("a.tar.gz");
        let mut encoder = flate2::write::GzEncoder::new(
            File::create(&compressed).unwrap(),
            flate2::Compression::fast(),
        );
        encoder.write_all(&fs::read(plain.path()).unwrap()).unwrap();
        encoder.finish().unwrap();
        let unpacked = Layer::from_archive(directory.path(), &compressed).unwrap();
        assert_eq!(unpacked.digest(), plain.digest());
        let taken = Layer::from_archive(directory.path(), plain.path()).unwrap();
        assert_eq!(taken, plain);
    }
}
