//! Why there is no view.

use std::io;
use std::path::PathBuf;

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// No usable Flux in the image.
    #[error(
        "found no Flux in the view image; looked at {}; use a published view image, or install Flux below one of these places",
        searched.join(", ")
    )]
    NotFound {
        /// Every place that was searched, each with why Flux is not taken from there.
        searched: Vec<String>,
    },
    /// The volume is in memory, and the view is larger than what the container may have of it.
    #[error(
        "the view does not fit into memory: this container may have {limit} MiB; raise the memory limit in flux.container.resources, or set flux.container.medium to Disk"
    )]
    MemoryLimit {
        /// The container's memory limit in MiB.
        limit: u64,
    },
    /// The destination lies in what is to be copied.
    #[error("cannot copy {} into itself: the destination {} lies in it", source_path.display(), destination.display())]
    IntoItself {
        /// The view in the image.
        source_path: PathBuf,
        /// Where it was to go.
        destination: PathBuf,
    },
    /// A file or directory could not be handled.
    #[error("could not {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The threads for copying could not be started.
    #[error("could not copy with several threads: {reason}")]
    Threads {
        /// Why.
        reason: String,
    },
}

/// For `map_err`: names what was being done and to what.
pub fn failed(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ViewError {
    let path = path.into();
    move |cause| ViewError::File { doing, path, cause }
}
