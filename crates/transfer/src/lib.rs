//! Copies files between a pod and another machine as a tar stream. `flux-agent` and `kubectl flux cp` use it at either
//! end, so that an image needs no tar.
//!
//! A stream contains one file, or one directory with everything below it. The first entry is that file or directory; the
//! receiver chooses its path. Entries can only be written below that path, as the sender may be hostile.

mod pack;
mod unpack;

pub use pack::pack;
pub use unpack::{Destination, unpack};

use std::io;
use std::path::PathBuf;

/// The name of the first entry, if it is a directory.
const ROOT: &str = ".";
/// The name of the only entry of a stream with one file, as tar allows no file with the name `ROOT`.
const FILE: &str = "file";

/// Why files could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum TransferError {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a file, directory or symbolic link: nothing else can be copied", path.display())]
    Kind { path: PathBuf },
    #[error("{operation} the stream of files")]
    Stream {
        /// The failed operation: `read` or `write`.
        operation: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("refused {}: it is outside {}", entry.display(), destination.display())]
    Outside { entry: PathBuf, destination: PathBuf },
}

/// The amount of copied files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files, directories and symbolic links.
    pub entries: u64,
    /// The bytes of the files.
    pub bytes: u64,
}
