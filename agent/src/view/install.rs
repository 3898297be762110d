//! Installs a view: finds it, copies it beside the final path, renames it, and writes a marker.

use super::copy::{Copied, Copy, Tree};
use super::error::{ViewError, failed};
use super::find::{Source, SourceLayout, find};
use super::links::LinkMap;
use crate::system::files;
use crate::system::root::below;
use clap::Args;
use flux_contract::{INSTALL_MOUNT, Layout};
use rayon::ThreadPoolBuilder;
use rustix::fs::{FsWord, statfs};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

/// `f_type` of a file system in memory (statfs(2)).
const IN_MEMORY: FsWord = 0x0102_1994;
/// How many broken links the report names.
const NAMED_LINKS: usize = 20;
/// The id of the boot, which changes at every start of the node.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// More threads than cores hide the time that a disk or an unpacked layer takes to answer.
const THREADS: RangeInclusive<usize> = 4..=16;

/// The arguments of `flux-agent view install`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InstallRequest {
    /// Where the shared volume is mounted now
    #[arg(long, default_value = INSTALL_MOUNT, value_name = "PATH")]
    pub destination: PathBuf,
    /// Where it will be mounted in the pod's other containers
    #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
    pub mount_path: PathBuf,
    /// Prefix of the Flux installation, instead of looking for it
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
    /// Root of the view image
    #[arg(long, default_value = "/", hide = true)]
    pub root: PathBuf,
    /// The memory limit of this process in bytes, if there is one.
    #[arg(skip)]
    pub memory_limit: Option<u64>,
}

/// The report of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallReport {
    /// The view in the image.
    pub source: Source,
    /// The copied files; none if an earlier run has copied everything.
    pub copied: Option<Copied>,
    /// How long it took.
    pub elapsed: Duration,
}

impl fmt::Display for InstallReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Copied { files, bytes, links, left_out, unresolved }) = &self.copied else {
            return formatter.write_str("the view was installed by an earlier run: nothing to do");
        };
        let kind = match self.source.layout {
            SourceLayout::Spack => "Spack view",
            SourceLayout::AtMountPath | SourceLayout::OptView => "flat view",
            SourceLayout::Given => "given prefix",
        };
        let (view, rate) = (self.source.view.display(), rate(*bytes, self.elapsed));
        write!(
            formatter,
            "installed the view of {view} ({kind}): {files} files, {links} links, {rate}"
        )?;
        if *left_out > 0 {
            write!(formatter, "; left out {left_out} records of builds or special files")?;
        }
        if !unresolved.is_empty() {
            let first = unresolved.iter().take(NAMED_LINKS).cloned().collect::<Vec<_>>().join(", ");
            let count = unresolved.len();
            write!(formatter, "; {count} links lead nowhere that is copied: {first}")?;
        }
        Ok(())
    }
}

/// As `12.3 MB in 0.5 s (24.6 MB/s)`.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn rate(bytes: u64, elapsed: Duration) -> String {
    let (megabytes, seconds) = (bytes as f64 / 1e6, elapsed.as_secs_f64());
    let speed = megabytes / seconds.max(0.001);
    format!("{megabytes:.1} MB in {seconds:.1} s ({speed:.1} MB/s)")
}

/// Copies the image's Flux to `<destination>/view`, and the packages its links lead to from
/// /opt/software to `<destination>/software`, and writes [`Layout::view_done_marker`].
///
/// Everything is copied beside its path and renamed at the end, so a restarted init container copies nothing after a
/// complete copy, unless the node was started again since then: nothing was flushed to the disk. `progress` is called with
/// lines for the log, in a long copy.
pub fn install_view(
    request: &InstallRequest,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstallReport, ViewError> {
    let started = Instant::now();
    let layout = Layout::new(request.destination.to_string_lossy());
    files::make_sticky(&request.destination)
        .map_err(failed("set the mode of", &request.destination))?;
    let source = find(&request.root, &request.mount_path, request.source.as_deref())?;
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let marker = PathBuf::from(layout.view_done_marker());
    let already_installed = fs::read_to_string(&marker).is_ok_and(|text| text.ends_with(&boot))
        && request.destination.join("view/bin/flux").symlink_metadata().is_ok();
    if already_installed {
        return Ok(InstallReport { source, copied: None, elapsed: started.elapsed() });
    }
    let links = links(request, &source)?;
    let trees = trees(request, &source, &layout)?;
    // An interrupted run may have left files, or a view without a marker.
    for path in trees.iter().flat_map(|(tree, place)| [&tree.to, place]) {
        files::remove_directory(path).map_err(failed("remove leftover", path))?;
    }
    let copied = copy(request, &links, &trees, &|copied| {
        let rate = rate(copied.bytes, started.elapsed());
        progress(&format!("copied {} files, {rate}", copied.files));
    })?;
    for (tree, place) in &trees {
        fs::rename(&tree.to, place).map_err(failed("put in place", place))?;
    }
    let report = InstallReport { source, copied: Some(copied), elapsed: started.elapsed() };
    let text = format!("{report}\nwhile the node was up as {boot}");
    files::write(&marker, text.as_bytes(), 0o644, None).map_err(failed("write marker", &marker))?;
    Ok(report)
}

fn links(request: &InstallRequest, source: &Source) -> Result<LinkMap, ViewError> {
    let view_at_run_time = Layout::new(request.mount_path.to_string_lossy()).view();
    let view_at_run_time = PathBuf::from(view_at_run_time);
    let names = std::iter::once(&source.view).chain(&source.names);
    let mut trees: Vec<_> = names.map(|name| (name.clone(), view_at_run_time.clone())).collect();
    trees.push((Layout::SOFTWARE_MOUNT.into(), Layout::SOFTWARE_MOUNT.into()));
    let links = LinkMap { trees };
    if links.at_run_time(&source.flux).is_some() {
        return Ok(links);
    }
    let (view, flux) = (source.view.display(), source.flux.display());
    let searched = vec![format!("{view} (bin/flux is {flux}, which is not copied)")];
    Err(ViewError::NotFound { searched })
}

/// Each tree, which is copied beside its place, and its place.
fn trees(
    request: &InstallRequest,
    source: &Source,
    layout: &Layout,
) -> Result<Vec<(Tree, PathBuf)>, ViewError> {
    let destination = fs::canonicalize(&request.destination)
        .map_err(failed("find the destination", &request.destination))?;
    let places = [
        (source.view.clone(), "view", layout.view().into()),
        (Layout::SOFTWARE_MOUNT.into(), Layout::SOFTWARE, layout.software().into()),
    ];
    let trees = places.into_iter().map(|(image, name, place)| {
        let from = below(&request.root, &image);
        if destination.starts_with(&from) {
            let destination = destination.clone();
            return Err(ViewError::IntoItself { source_path: image, destination });
        }
        let to = request.destination.join(format!(".{name}.partial"));
        Ok((Tree { image, from, to }, place))
    });
    trees.collect()
}

fn copy(
    request: &InstallRequest,
    links: &LinkMap,
    trees: &[(Tree, PathBuf)],
    progress: &(dyn Fn(&Copied) + Sync),
) -> Result<Copied, ViewError> {
    let trees = trees.iter().map(|(tree, _)| tree.clone());
    let (there, missing): (Vec<_>, Vec<_>) = trees.partition(|tree| tree.from.is_dir());
    for tree in missing {
        // The packages of a flat view are in the view, but their directory is mounted, too.
        fs::create_dir(&tree.to).map_err(failed("create directory", &tree.to))?;
    }
    let in_memory = statfs(&request.destination).is_ok_and(|found| found.f_type == IN_MEMORY);
    let limit = request.memory_limit.filter(|_| in_memory);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let pool = ThreadPoolBuilder::new()
        .num_threads(cores.clamp(*THREADS.start(), *THREADS.end()))
        .build()
        .map_err(io::Error::other)
        .map_err(failed("start the threads that copy to", &request.destination))?;
    pool.install(|| Copy::new(&request.root, links, progress, limit).run(&there))
}
