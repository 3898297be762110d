//! Errors of installing a view.

use std::io;
use std::path::PathBuf;

/// Why a view could not be installed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum ViewError {
    #[error(
        "found no Flux in the view image; looked at {}; use a published view image, or install Flux below one of these places",
        searched.join(", ")
    )]
    NotFound {
        /// The searched paths, each with the reason why its Flux cannot be used.
        searched: Vec<String>,
    },
    #[error(
        "the view does not fit into memory: this container may have {limit} MiB; raise the memory limit in flux.container.resources, or set flux.container.medium to Disk"
    )]
    MemoryLimit { limit: u64 },
    #[error("cannot copy {} into itself: the destination {} lies in it", source_path.display(), destination.display())]
    IntoItself { source_path: PathBuf, destination: PathBuf },
    #[error("could not {operation} {}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
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
