//! Errors of installing a view.

use std::io;
use std::path::PathBuf;

/// Why a view could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// No usable Flux in the image.
    #[error(
        "found no Flux in the view image; looked at {}; use a published view image, or install Flux below one of these places",
        searched.join(", ")
    )]
    NotFound {
        /// The searched paths, each with the reason why its Flux cannot be used.
        searched: Vec<String>,
    },
    /// The volume is in memory, and the view exceeds the memory limit of the container.
    #[error(
        "the view does not fit into memory: this container may have {limit} MiB; raise the memory limit in flux.container.resources, or set flux.container.medium to Disk"
    )]
    MemoryLimit {
        /// The container's memory limit in MiB.
        limit: u64,
    },
    /// The destination is in the view itself.
    #[error("cannot copy {} into itself: the destination {} lies in it", source_path.display(), destination.display())]
    IntoItself {
        /// The view in the image.
        source_path: PathBuf,
        /// The destination.
        destination: PathBuf,
    },
    /// A file or directory could not be handled.
    #[error("could not {operation} {}", path.display())]
    File {
        /// The failed operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
}

/// For `map_err`: adds the operation and the path to an error.
pub fn failed(
    operation: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ViewError {
    let path = path.into();
    move |cause| ViewError::File { operation, path, cause }
}
