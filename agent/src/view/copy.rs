//! Copying trees with several threads in one pass.
//!
//! File contents go through `copy_file_range(2)` where the kernel can (`std::io::copy` does that),
//! which shares blocks instead of copying them on file systems that can do so; asking for a
//! reflink first would ask the same question twice. Modes and modification times are kept: Python
//! compares the times of its sources to tell whether its compiled files are still good. Files
//! belong to whoever copies. Of files with several names the content is copied once.

use super::error::{ViewError, failed};
use super::find::resolve;
use super::links::LinkMap;
use crate::system::root::below;
use rayon::Scope;
use std::collections::HashMap;
use std::fs::{self, DirEntry, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many unresolved links are remembered by name.
const NAMED_LINKS: usize = 20;

/// A link in the view that leads nowhere, or out of what is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedLink {
    /// The link, as a path in the image.
    pub link: PathBuf,
    /// Where it leads at run time.
    pub target: PathBuf,
    /// True when the image itself has nothing there.
    pub missing: bool,
}

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

/// What was copied so far; read while it goes on.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) files: AtomicU64,
    pub(super) links: AtomicU64,
    pub(super) directories: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) unresolved: AtomicU64,
    pub(super) skipped: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// One copy of several trees.
pub(super) struct Copy<'run> {
    root: &'run Path,
    links: &'run LinkMap,
    counters: &'run Counters,
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    /// First name of each file that has several.
    first_names: HashMap<(u64, u64), PathBuf>,
    /// Further names: existing path, new path. Made at the end, when every content is there.
    more_names: Vec<(PathBuf, PathBuf)>,
    /// Modes of directories, set at the end: one may forbid to write into them.
    modes: Vec<(PathBuf, u32)>,
    unresolved: Vec<UnresolvedLink>,
    error: Option<ViewError>,
}

impl<'run> Copy<'run> {
    /// A copy out of the image below `root`, with links changed as `links` says.
    pub(super) fn new(root: &'run Path, links: &'run LinkMap, counters: &'run Counters) -> Self {
        Self { root, links, counters, state: Mutex::default(), stop: AtomicBool::new(false) }
    }

    /// Copies all `trees`; stops soon after the first failure and returns that. Call it within a
    /// thread pool. Returns the unresolved links, at most twenty of them.
    pub(super) fn run(self, trees: Vec<Tree>) -> Result<Vec<UnresolvedLink>, ViewError> {
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
        let mut unresolved = state.unresolved;
        unresolved.sort_by(|one, other| one.link.cmp(&other.link));
        Ok(unresolved)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` unless something has failed; keeps the first failure.
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
        fs::create_dir(&tree.to).map_err(failed("create directory", &tree.to))?;
        self.state().modes.push((tree.to.clone(), metadata.mode() & 0o7777));
        Counters::add(&self.counters.directories, 1);
        for entry in fs::read_dir(&tree.from).map_err(failed("list", &tree.from))? {
            let entry = entry.map_err(failed("list", &tree.from))?;
            let kind = entry.file_type().map_err(failed("read", entry.path()))?;
            let name = entry.file_name();
            let part = Tree {
                image: tree.image.join(&name),
                from: tree.from.join(&name),
                to: tree.to.join(&name),
            };
            if kind.is_dir() {
                scope.spawn(move |scope| self.note(|copy| copy.directory(scope, &part)));
            } else if kind.is_symlink() {
                self.link(&part)?;
            } else if kind.is_file() {
                scope.spawn(move |_| self.note(|copy| copy.file(&entry, &part)));
            } else {
                // Sockets, pipes and devices have no place in a view.
                Counters::add(&self.counters.skipped, 1);
            }
        }
        Ok(())
    }

    fn file(&self, entry: &DirEntry, part: &Tree) -> Result<(), ViewError> {
        let metadata = entry.metadata().map_err(failed("read", &part.from))?;
        if metadata.nlink() > 1 && !self.is_first_name(&metadata, &part.to) {
            return Ok(());
        }
        let bytes = copy_file(&part.from, &part.to, &metadata)?;
        Counters::add(&self.counters.files, 1);
        Counters::add(&self.counters.bytes, bytes);
        Ok(())
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
        Counters::add(&self.counters.links, 1);
        let missing = !self.leads_somewhere(part, &target);
        if missing || !moved.copied {
            Counters::add(&self.counters.unresolved, 1);
            let mut state = self.state();
            if state.unresolved.len() < NAMED_LINKS {
                let link = part.image.clone();
                state.unresolved.push(UnresolvedLink { link, target: moved.target, missing });
            }
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

fn copy_file(from: &Path, to: &Path, metadata: &Metadata) -> Result<u64, ViewError> {
    let mut source = File::open(from).map_err(failed("open", from))?;
    write_copy(&mut source, to, metadata).map_err(failed("write", to))
}

fn write_copy(source: &mut File, to: &Path, metadata: &Metadata) -> io::Result<u64> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let bytes = io::copy(source, &mut copy)?;
    // After the content: writing may take away set-user-ID bits.
    copy.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
    copy.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    Ok(bytes)
}
