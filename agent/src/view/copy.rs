//! Copies trees in one pass, with several threads.
//!
//! Modes and modification times are copied, because Python compares the times of its sources with those of its compiled
//! files. Files belong to the user who copies. The content of a file with several names is copied once. Nothing is flushed to
//! the disk, because the copy is of no use after a crash of the node.

use super::error::{ViewError, failed};
use super::find::resolve;
use super::links::LinkMap;
use crate::system::root::below;
use parking_lot::Mutex;
use rayon::prelude::*;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The size from which on a file is a unit of work: threads that create files in one directory wait for each other.
const LARGE: u64 = 1 << 20;

/// Directories with Spack's records of builds, which only Spack reads.
const BUILD_RECORDS: [&str; 2] = [".spack", ".spack-db"];

/// The mode bits that are copied. Root runs programs of the view, so no other user may write to them.
const COPIED_MODE: u32 = 0o7755;

/// Memory that the copy itself needs.
const OWN_MEMORY: u64 = 4 << 20;

/// The size of a page, in which memory is allocated.
const PAGE: u64 = 4096;

/// How often a long copy reports its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) image: PathBuf,
    /// The same path below the root of the image.
    pub(super) from: PathBuf,
    /// The path of the copy, which must not exist yet.
    pub(super) to: PathBuf,
}

impl Tree {
    fn entry(&self, name: &OsStr) -> Self {
        Self { image: self.image.join(name), from: self.from.join(name), to: self.to.join(name) }
    }
}

/// The amount of copied files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files whose content was copied.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Symbolic links made.
    pub links: u64,
    /// Directories with Spack's records of a build, sockets, pipes and devices.
    pub left_out: u64,
    /// Links to missing files or to files outside of the copy, each with its target.
    pub unresolved: Vec<String>,
}

pub(super) struct Copy<'run> {
    root: &'run Path,
    links: &'run LinkMap,
    /// Called with the amount so far, in a long copy.
    progress: &'run (dyn Fn(&Copied) + Sync),
    /// The memory limit in bytes, if the copy is in memory and there is a limit.
    memory_limit: Option<u64>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Names of each file that has several. The content goes to the first; the others are made at the end.
    names: HashMap<(u64, u64), Vec<PathBuf>>,
    /// Modes of directories. They are set at the end, because a mode may forbid to write into a directory.
    modes: Vec<(PathBuf, u32)>,
    copied: Copied,
    memory: u64,
    /// The time of the last report of progress, since the start.
    reported: Duration,
}

impl<'run> Copy<'run> {
    pub(super) fn new(
        root: &'run Path,
        links: &'run LinkMap,
        progress: &'run (dyn Fn(&Copied) + Sync),
        memory_limit: Option<u64>,
    ) -> Self {
        let (started, state) = (Instant::now(), Mutex::default());
        Self { root, links, progress, memory_limit, started, state }
    }

    /// Copies all `trees`, in a thread pool. Stops soon after the first error and returns it.
    pub(super) fn run(self, trees: &[Tree]) -> Result<Copied, ViewError> {
        trees.par_iter().try_for_each(|tree| {
            let metadata = fs::metadata(&tree.from).map_err(failed("read", &tree.from))?;
            self.directory(tree, &metadata)
        })?;
        let state = self.state.into_inner();
        for (first, others) in state.names.values().filter_map(|names| names.split_first()) {
            for other in others {
                fs::hard_link(first, other).map_err(failed("make a hard link at", other))?;
            }
        }
        for (directory, mode) in &state.modes {
            fs::set_permissions(directory, Permissions::from_mode(*mode))
                .map_err(failed("set the mode of", directory))?;
        }
        let mut copied = state.copied;
        copied.unresolved.sort();
        Ok(copied)
    }

    fn directory(&self, tree: &Tree, metadata: &Metadata) -> Result<(), ViewError> {
        let made = DirBuilder::new().mode(0o700).create(&tree.to);
        made.map_err(failed("create directory", &tree.to))?;
        self.state.lock().modes.push((tree.to.clone(), metadata.mode() & COPIED_MODE));
        // Other threads may copy the entries of `apart`.
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&tree.from).map_err(failed("list", &tree.from))? {
            let entry = entry.map_err(failed("list", &tree.from))?;
            let metadata = entry.metadata().map_err(failed("read", entry.path()))?;
            let (name, kind) = (entry.file_name(), metadata.file_type());
            if kind.is_symlink() {
                self.link(&tree.entry(&name))?;
            } else if kind.is_file() && metadata.len() < LARGE {
                together.push((name, metadata));
            } else if kind.is_file()
                || kind.is_dir() && !BUILD_RECORDS.iter().any(|record| name == *record)
            {
                apart.push((name, metadata));
            } else {
                // Sockets, pipes and devices have no place in a view either.
                self.state.lock().copied.left_out += 1;
            }
        }
        let copy = |(name, metadata): &(OsString, Metadata)| {
            let entry = tree.entry(name);
            if metadata.is_dir() {
                self.directory(&entry, metadata)
            } else {
                self.file(&entry, metadata)
            }
        };
        let (own, others) = rayon::join(
            || together.iter().try_for_each(copy),
            || apart.par_iter().try_for_each(copy),
        );
        own.and(others)
    }

    fn file(&self, file: &Tree, metadata: &Metadata) -> Result<(), ViewError> {
        if metadata.nlink() > 1 && !self.is_first_name(metadata, &file.to) {
            return Ok(());
        }
        self.take_memory(metadata.len())?;
        let source = File::open(&file.from).map_err(failed("open", &file.from))?;
        let bytes = write_copy(source, &file.to, metadata).map_err(failed("write", &file.to))?;
        let mut state = self.state.lock();
        state.copied.files += 1;
        state.copied.bytes += bytes;
        let elapsed = self.started.elapsed();
        if elapsed.saturating_sub(state.reported) >= PROGRESS_INTERVAL {
            state.reported = elapsed;
            (self.progress)(&state.copied);
        }
        Ok(())
    }

    /// Counts the memory of a file of `bytes`. Files in memory count for the memory limit of this container, and the kernel
    /// would kill this process without a message if it exceeded the limit. So the copy fails before.
    fn take_memory(&self, bytes: u64) -> Result<(), ViewError> {
        let Some(limit) = self.memory_limit else { return Ok(()) };
        let mut state = self.state.lock();
        state.memory += bytes.next_multiple_of(PAGE);
        if OWN_MEMORY + state.memory > limit {
            Err(ViewError::MemoryLimit { limit: limit >> 20 })
        } else {
            Ok(())
        }
    }

    fn is_first_name(&self, metadata: &Metadata, to: &Path) -> bool {
        let mut state = self.state.lock();
        let names = state.names.entry((metadata.dev(), metadata.ino())).or_default();
        names.push(to.to_owned());
        names.len() == 1
    }

    fn link(&self, part: &Tree) -> Result<(), ViewError> {
        let target = fs::read_link(&part.from).map_err(failed("read link", &part.from))?;
        let moved = self.links.moved(&part.image, &target);
        symlink(&moved.target, &part.to).map_err(failed("make a link at", &part.to))?;
        let missing = !self.leads_somewhere(part, &target);
        let copied = &mut self.state.lock().copied;
        copied.links += 1;
        if missing || !moved.copied {
            let (link, target) = (part.image.display(), moved.target.display());
            let why = if missing { " (missing)" } else { "" };
            copied.unresolved.push(format!("{link} -> {target}{why}"));
        }
        Ok(())
    }

    /// Whether the target of the link exists in the image. The kernel would follow absolute links on the way from its own
    /// root; `resolve` follows them from the root of the image.
    fn leads_somewhere(&self, part: &Tree, target: &Path) -> bool {
        let meant = part.image.parent().unwrap_or(&part.image).join(target);
        fs::symlink_metadata(below(self.root, &meant)).is_ok() || resolve(self.root, &meant).is_ok()
    }
}

fn write_copy(mut source: File, to: &Path, metadata: &Metadata) -> io::Result<u64> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let bytes = io::copy(&mut source, &mut copy)?;
    // The mode is set after the content, because writing may remove set-user-ID bits.
    copy.set_permissions(Permissions::from_mode(metadata.mode() & COPIED_MODE))?;
    copy.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    Ok(bytes)
}
