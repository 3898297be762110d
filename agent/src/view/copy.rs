//! Copying trees in one pass, with several threads.
//!
//! An image's layers are an overlay file system and the shared volume is another one, so no block can be
//! shared and `copy_file_range(2)` is refused: neither is tried. `sendfile(2)` moves a file's pages from
//! cache to cache within the kernel. Modes and modification times are copied: Python compares the times of
//! its sources to tell whether its compiled files are still good. Files belong to whoever copies. Of files
//! with several names the content is copied once. Nothing is flushed to the disk: what a pod leaves there
//! is worth nothing once its node is gone.

use super::error::{ViewError, failed};
use super::find::resolve;
use super::links::LinkMap;
use crate::system::root::below;
use rayon::Scope;
use rustix::fs::sendfile;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From this size on a file is a piece of work of its own. A smaller one is copied by whoever lists its
/// directory: threads that make files in one directory wait for each other.
const LARGE: u64 = 1 << 20;

/// Directories in which Spack notes how it built a package, logs and sources included. Spack alone reads
/// them, where it installed the packages.
const BUILD_RECORDS: [&str; 2] = [".spack", ".spack-db"];

/// Mode bits that a copy has of its source: root runs what is in the view, so nobody else may write to it.
const COPIED_MODE: u32 = 0o7755;

/// Memory that the copy itself needs.
const OWN_MEMORY: u64 = 4 << 20;

/// What is written takes whole pages.
const PAGE: u64 = 4096;

/// How often a copy that takes long says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// A tree to be copied.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Where it is in the image.
    pub(super) image: PathBuf,
    /// The same as a path of this system.
    pub(super) from: PathBuf,
    /// Where it goes; must not exist yet.
    pub(super) to: PathBuf,
}

/// What was copied.
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
    /// Links that lead nowhere or out of what was copied, each with its target.
    pub unresolved: Vec<String>,
}

/// One copy of several trees.
pub(super) struct Copy<'run> {
    root: &'run Path,
    links: &'run LinkMap,
    /// Takes what was copied so far, in a copy that takes long.
    progress: &'run (dyn Fn(&Copied) + Sync),
    /// Bytes of memory that the copy may take, where it takes any.
    memory_limit: Option<u64>,
    umask: u32,
    started: Instant,
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    /// First name of each file that has several.
    first_names: HashMap<(u64, u64), PathBuf>,
    /// Further names: existing path, new path. Made at the end, when every content is there.
    more_names: Vec<(PathBuf, PathBuf)>,
    /// Modes of directories that are to get another at the end: one may forbid to write into them.
    modes: Vec<(PathBuf, u32)>,
    copied: Copied,
    memory: u64,
    /// When, since the start, the progress was reported.
    reported: Duration,
    error: Option<ViewError>,
}

impl<'run> Copy<'run> {
    pub(super) fn new(
        root: &'run Path,
        links: &'run LinkMap,
        progress: &'run (dyn Fn(&Copied) + Sync),
        memory_limit: Option<u64>,
    ) -> Self {
        let (state, stop, started) = (Mutex::default(), AtomicBool::new(false), Instant::now());
        Self { root, links, progress, memory_limit, umask: umask(), started, state, stop }
    }

    /// Copies all `trees`; stops soon after the first failure and returns that. Call it within a
    /// thread pool.
    pub(super) fn run(self, trees: Vec<Tree>) -> Result<Copied, ViewError> {
        rayon::scope(|scope| {
            for tree in trees {
                let copy = &self;
                scope.spawn(move |scope| copy.note(|copy| copy.directory(scope, &tree)));
            }
        });
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.error {
            return Err(error);
        }
        for (existing, new) in &state.more_names {
            fs::hard_link(existing, new).map_err(failed("make a hard link at", new))?;
        }
        for (directory, mode) in &state.modes {
            fs::set_permissions(directory, Permissions::from_mode(*mode))
                .map_err(failed("set the mode of", directory))?;
        }
        let mut copied = state.copied;
        copied.unresolved.sort();
        Ok(copied)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` unless something has failed; stores the first failure.
    fn note<'scope>(&'scope self, work: impl FnOnce(&'scope Self) -> Result<(), ViewError>) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = work(self) {
            self.stop.store(true, Ordering::Relaxed);
            self.state().error.get_or_insert(error);
        }
    }

    fn directory<'scope>(
        &'scope self,
        scope: &Scope<'scope>,
        tree: &Tree,
    ) -> Result<(), ViewError> {
        let metadata = fs::metadata(&tree.from).map_err(failed("read", &tree.from))?;
        self.make_directory(&tree.to, metadata.mode() & COPIED_MODE)?;
        for entry in fs::read_dir(&tree.from).map_err(failed("list", &tree.from))? {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let entry = entry.map_err(failed("list", &tree.from))?;
            let kind = entry.file_type().map_err(failed("read", entry.path()))?;
            let name = entry.file_name();
            let part = Tree {
                image: tree.image.join(&name),
                from: tree.from.join(&name),
                to: tree.to.join(&name),
            };
            if kind.is_dir() && BUILD_RECORDS.map(OsStr::new).contains(&&*name) {
                self.state().copied.left_out += 1;
            } else if kind.is_dir() {
                scope.spawn(move |scope| self.note(|copy| copy.directory(scope, &part)));
            } else if kind.is_symlink() {
                self.link(&part)?;
            } else if kind.is_file() {
                self.file(scope, part)?;
            } else {
                // Sockets, pipes and devices have no place in a view.
                self.state().copied.left_out += 1;
            }
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path, mode: u32) -> Result<(), ViewError> {
        // As long as it is filled its owner may write into it.
        let open = (mode & 0o777) | 0o700;
        DirBuilder::new().mode(open).create(path).map_err(failed("create directory", path))?;
        if open & !self.umask != mode {
            self.state().modes.push((path.to_owned(), mode));
        }
        Ok(())
    }

    fn file<'scope>(&'scope self, scope: &Scope<'scope>, part: Tree) -> Result<(), ViewError> {
        let source = File::open(&part.from).map_err(failed("open", &part.from))?;
        let metadata = source.metadata().map_err(failed("read", &part.from))?;
        if metadata.nlink() > 1 && !self.is_first_name(&metadata, &part.to) {
            return Ok(());
        }
        if metadata.len() < LARGE {
            return self.content(source, &metadata, &part.to);
        }
        // Not open while it waits: there may be more of them than a process may have open.
        drop(source);
        scope.spawn(move |_| {
            self.note(|copy| {
                let source = File::open(&part.from).map_err(failed("open", &part.from))?;
                copy.content(source, &metadata, &part.to)
            });
        });
        Ok(())
    }

    fn content(&self, source: File, metadata: &Metadata, to: &Path) -> Result<(), ViewError> {
        self.take_memory(metadata.len())?;
        let bytes = write_copy(source, to, metadata, self.umask).map_err(failed("write", to))?;
        let mut state = self.state();
        state.copied.files += 1;
        state.copied.bytes += bytes;
        let elapsed = self.started.elapsed();
        if elapsed.saturating_sub(state.reported) >= PROGRESS_INTERVAL {
            state.reported = elapsed;
            (self.progress)(&state.copied);
        }
        Ok(())
    }

    /// Accounts for a file of `bytes`. What is written to a volume in memory counts for the memory limit of whoever
    /// writes it, and the kernel kills whoever exceeds that, without a word: so the copy ends before.
    fn take_memory(&self, bytes: u64) -> Result<(), ViewError> {
        let Some(limit) = self.memory_limit else { return Ok(()) };
        let mut state = self.state();
        state.memory += bytes.next_multiple_of(PAGE);
        if OWN_MEMORY + state.memory > limit {
            Err(ViewError::MemoryLimit { limit: limit >> 20 })
        } else {
            Ok(())
        }
    }

    fn is_first_name(&self, metadata: &Metadata, to: &Path) -> bool {
        let mut state = self.state();
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = state.first_names.get(&identity).cloned() {
            state.more_names.push((first, to.to_owned()));
            return false;
        }
        state.first_names.insert(identity, to.to_owned());
        true
    }

    fn link(&self, part: &Tree) -> Result<(), ViewError> {
        let target = fs::read_link(&part.from).map_err(failed("read link", &part.from))?;
        let moved = self.links.moved(&part.image, &target);
        symlink(&moved.target, &part.to).map_err(failed("make a link at", &part.to))?;
        let missing = !self.leads_somewhere(part, &target);
        let copied = &mut self.state().copied;
        copied.links += 1;
        if missing || !moved.copied {
            let (link, target) = (part.image.display(), moved.target.display());
            let why = if missing { " (missing)" } else { "" };
            copied.unresolved.push(format!("{link} -> {target}{why}"));
        }
        Ok(())
    }

    /// Whether the image has anything where the link leads. The kernel knows at once, except that
    /// it takes absolute links on the way from its own root; then they are followed by hand.
    fn leads_somewhere(&self, part: &Tree, target: &Path) -> bool {
        let meant = part.image.parent().unwrap_or(&part.image).join(target);
        fs::symlink_metadata(below(self.root, &meant)).is_ok() || resolve(self.root, &meant).is_ok()
    }
}

fn write_copy(source: File, to: &Path, metadata: &Metadata, umask: u32) -> io::Result<u64> {
    let mode = metadata.mode() & COPIED_MODE;
    let made_with = mode & 0o777;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(made_with).open(to)?;
    let bytes = send(source, &mut copy, metadata.len())?;
    // After the content: writing may take away set-user-ID bits.
    if made_with & !umask != mode {
        copy.set_permissions(Permissions::from_mode(mode))?;
    }
    copy.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    Ok(bytes)
}

/// Copies `length` bytes, or fewer where `source` has no more, and returns how many.
fn send(mut source: File, copy: &mut File, length: u64) -> io::Result<u64> {
    let mut sent = 0;
    while sent < length {
        let rest = usize::try_from(length - sent).unwrap_or(usize::MAX);
        match sendfile(&*copy, &source, None, rest) {
            Ok(0) => break,
            Ok(bytes) => sent += bytes as u64,
            Err(Errno::INTR) => {}
            // Not between these two file systems.
            Err(Errno::INVAL | Errno::NOSYS) if sent == 0 => return io::copy(&mut source, copy),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

/// The mode bits that files of this process do not get when they are made; all where it is not known.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut values = status.lines().filter_map(|line| line.strip_prefix("Umask:"));
    values.next().and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0o777)
}
