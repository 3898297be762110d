//! Installing a view: find, copy beside the final place, put in place, mark as done.

use super::copy::{Copy, Counters, Tree, UnresolvedLink};
use super::error::{Searched, ViewError, failed};
use super::find::{Source, SourceLayout, find};
use super::links::LinkMap;
use super::room::Room;
use crate::system::files;
use crate::system::root::below;
use flux_contract::Layout;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};

/// How often progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// What is another each time the machine is started.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// More threads than cores hide the time that a disk or an unpacked layer takes to answer.
const THREADS: RangeInclusive<usize> = 4..=16;

/// What is to be installed and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallRequest {
    /// Root of the view image; `/` in its container.
    pub root: PathBuf,
    /// Where the shared volume is mounted now ([`flux_contract::INSTALL_MOUNT`]).
    pub destination: PathBuf,
    /// Where it will be mounted at run time (`flux.container.mountPath`).
    pub mount_path: PathBuf,
    /// The installation prefix in the image, instead of looking for it.
    pub source: Option<PathBuf>,
    /// What this process may have of the memory, in bytes, if that is limited.
    pub memory_limit: Option<u64>,
}

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallReport {
    /// The installation prefix in the image.
    pub source: PathBuf,
    /// How the image is laid out.
    pub layout: SourceLayout,
    /// Files whose content was copied.
    pub files: u64,
    /// Symbolic links made.
    pub links: u64,
    /// Directories made.
    pub directories: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Sockets, pipes and devices left out.
    pub skipped: u64,
    /// Directories with Spack's records of how it built something, left out.
    pub records: u64,
    /// Links that lead nowhere or out of what was copied: how many.
    pub unresolved_count: u64,
    /// The same: the first twenty.
    pub unresolved: Vec<UnresolvedLink>,
    /// How long it took.
    pub elapsed: Duration,
    /// True when an earlier run had done everything and nothing was copied.
    pub already_installed: bool,
}

/// What [`install_view`] tells on the way; the text form is a line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Flux was found in the image.
    Found {
        /// The installation prefix.
        source: PathBuf,
        /// How the image is laid out.
        layout: SourceLayout,
    },
    /// The copy goes on; at most once a second.
    Copying {
        /// Files so far.
        files: u64,
        /// Bytes so far.
        bytes: u64,
        /// Time so far.
        elapsed: Duration,
    },
    /// Everything is in place.
    Done(InstallReport),
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { source, layout } => {
                let kind = match layout {
                    SourceLayout::Spack => "Spack view",
                    SourceLayout::AtMountPath | SourceLayout::OptView => "flat view",
                    SourceLayout::Given => "given prefix",
                };
                write!(formatter, "found Flux in {} ({kind})", source.display())
            }
            Self::Copying { files, bytes, elapsed } => {
                write!(formatter, "copied {files} files, {}", Rate(*bytes, *elapsed))
            }
            Self::Done(report) => report.fmt(formatter),
        }
    }
}

impl fmt::Display for InstallReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.already_installed {
            return formatter.write_str("the view was installed by an earlier run: nothing to do");
        }
        let rate = Rate(self.bytes, self.elapsed);
        write!(
            formatter,
            "installed the view: {} files, {} links, {rate}",
            self.files, self.links
        )?;
        if self.skipped > 0 {
            write!(formatter, "; left out {} sockets, pipes or devices", self.skipped)?;
        }
        if self.records > 0 {
            write!(formatter, "; left out {} directories of Spack's build records", self.records)?;
        }
        if self.unresolved_count > 0 {
            write!(formatter, "; {} links lead nowhere that is copied:", self.unresolved_count)?;
            for link in &self.unresolved {
                let why = if link.missing { " (missing)" } else { "" };
                write!(formatter, " {} -> {}{why}", link.link.display(), link.target.display())?;
            }
        }
        Ok(())
    }
}

/// Bytes and the time they took, as `12.3 MB in 0.5 s (24.6 MB/s)`.
struct Rate(u64, Duration);

impl fmt::Display for Rate {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (megabytes, seconds) = (self.0 as f64 / 1e6, self.1.as_secs_f64());
        let speed = megabytes / seconds.max(0.001);
        write!(formatter, "{megabytes:.1} MB in {seconds:.1} s ({speed:.1} MB/s)")
    }
}

/// Copies the image's Flux to `<destination>/view`, and the packages its links lead to from
/// /opt/software to `<destination>/software`, and writes [`Layout::view_done_marker`].
///
/// Everything is copied beside its place and renamed at the end, so a restarted init container
/// begins anew after a half-done copy and has nothing to do after a whole one. It does begin anew where
/// the node has been started again since: nothing was flushed to the disk.
pub fn install_view(
    request: &InstallRequest,
    report: &mut dyn FnMut(Progress),
) -> Result<InstallReport, ViewError> {
    let started = Instant::now();
    let layout = Layout::new(&request.destination);
    files::make_sticky(layout.mount()).map_err(failed("set the mode of", layout.mount()))?;
    let source = find(&request.root, &request.mount_path, request.source.as_deref())?;
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let marker = layout.view_done_marker();
    let installed = fs::read_to_string(&marker).is_ok_and(|text| text.ends_with(&boot))
        && layout.view().join("bin/flux").symlink_metadata().is_ok();
    let counters = Counters::default();
    let mut unresolved = Vec::new();
    if !installed {
        let plan = Plan::new(request, &source, &layout)?;
        report(Progress::Found { source: source.view.clone(), layout: source.layout });
        plan.clear()?;
        unresolved = plan.copy(request, &counters, started, report)?;
        plan.put_in_place()?;
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let done = InstallReport {
        source: source.view,
        layout: source.layout,
        files: count(&counters.files),
        links: count(&counters.links),
        directories: count(&counters.directories),
        bytes: count(&counters.bytes),
        skipped: count(&counters.skipped),
        records: count(&counters.records),
        unresolved_count: count(&counters.unresolved),
        unresolved,
        elapsed: started.elapsed(),
        already_installed: installed,
    };
    if !installed {
        let text = format!("{done}\nwhile the node was up as {boot}");
        files::write(&marker, text.as_bytes(), 0o644, None)
            .map_err(failed("write marker", &marker))?;
    }
    report(Progress::Done(done.clone()));
    Ok(done)
}

/// What goes where.
struct Plan {
    links: LinkMap,
    trees: Vec<Tree>,
    /// Where each tree is copied to first, and its final place.
    renames: Vec<(PathBuf, PathBuf)>,
}

impl Plan {
    fn new(request: &InstallRequest, source: &Source, layout: &Layout) -> Result<Self, ViewError> {
        let destination = fs::canonicalize(&request.destination)
            .map_err(failed("find the destination", &request.destination))?;
        let software = PathBuf::from(Layout::SOFTWARE_MOUNT);
        let view_at_run_time = Layout::new(&request.mount_path).view();
        let names = std::iter::once(&source.view).chain(&source.names);
        let mut map: Vec<_> = names.map(|name| (name.clone(), view_at_run_time.clone())).collect();
        map.push((software.clone(), software.clone()));
        let links = LinkMap::new(map);
        if !links.covers(&source.flux) {
            let reason = format!("bin/flux is {}, which is not copied", source.flux.display());
            let searched = vec![Searched { place: source.view.clone(), reason }];
            return Err(ViewError::NotFound { searched });
        }
        let mut plan = Self { links, trees: Vec::new(), renames: Vec::new() };
        let places = [
            (source.view.clone(), "view", layout.view()),
            (software, Layout::SOFTWARE, layout.software()),
        ];
        for (image, name, place) in places {
            let from = below(&request.root, &image);
            if destination.starts_with(&from) {
                return Err(ViewError::IntoItself { source_path: image, destination });
            }
            let to = request.destination.join(format!(".{name}.partial"));
            plan.renames.push((to.clone(), place));
            plan.trees.push(Tree { image, from, to });
        }
        Ok(plan)
    }

    /// Removes what an interrupted run left behind, and a view that was not marked as done.
    fn clear(&self) -> Result<(), ViewError> {
        for path in self.renames.iter().flat_map(|(partial, place)| [partial, place]) {
            files::remove_directory(path).map_err(failed("remove leftover", path))?;
        }
        Ok(())
    }

    fn copy(
        &self,
        request: &InstallRequest,
        counters: &Counters,
        started: Instant,
        report: &mut dyn FnMut(Progress),
    ) -> Result<Vec<UnresolvedLink>, ViewError> {
        let pool = pool()?;
        let mut trees = Vec::new();
        for tree in &self.trees {
            if tree.from.is_dir() {
                trees.push(tree.clone());
            } else {
                // The packages of a flat view are in it; their place is mounted all the same.
                fs::create_dir(&tree.to).map_err(failed("create directory", &tree.to))?;
            }
        }
        let room = Room::at(&request.destination, request.memory_limit);
        let copy = Copy::new(&request.root, &self.links, counters, room);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move || {
                // The receiver waits until it gets this or the thread is gone.
                let _ = sender.send(pool.install(|| copy.run(trees)));
            });
            loop {
                match receiver.recv_timeout(REPORT_INTERVAL) {
                    Ok(result) => return result,
                    Err(RecvTimeoutError::Timeout) => report(Progress::Copying {
                        files: counters.files.load(Ordering::Relaxed),
                        bytes: counters.bytes.load(Ordering::Relaxed),
                        elapsed: started.elapsed(),
                    }),
                    Err(RecvTimeoutError::Disconnected) => {
                        let reason = "a thread was lost".to_owned();
                        return Err(ViewError::Threads { reason });
                    }
                }
            }
        })
    }

    fn put_in_place(&self) -> Result<(), ViewError> {
        for (partial, place) in &self.renames {
            fs::rename(partial, place).map_err(failed("put in place", place))?;
        }
        Ok(())
    }
}

fn pool() -> Result<ThreadPool, ViewError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    ThreadPoolBuilder::new()
        .num_threads(cores.clamp(*THREADS.start(), *THREADS.end()))
        .build()
        .map_err(|error| ViewError::Threads { reason: error.to_string() })
}
