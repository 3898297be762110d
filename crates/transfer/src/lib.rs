//! Files on their way between a pod and another machine, as a tar stream: what `flux-agent` and `kubectl flux cp` have
//! in common, so that an image needs no tar.
//!
//! A stream is one file, or one directory with what is below it. Its first entry is the file or directory itself and
//! has the name `ROOT`; whoever unpacks says what it is called there. What an archive says it can write is only
//! below that: either end may be in the hands of somebody else.

mod pack;
mod unpack;

pub use pack::pack;
pub use unpack::{Destination, unpack};

use std::io;
use std::path::PathBuf;

/// The name of the first entry.
const ROOT: &str = ".";
/// The name of the only entry where that is no directory: tar has no file of the name `ROOT`.
const FILE: &str = "file";

/// Why files could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// What was asked for is neither file nor directory nor symbolic link.
    #[error("{} is no file, directory or symbolic link: nothing else can be copied", path.display())]
    Kind {
        /// What was asked for.
        path: PathBuf,
    },
    /// The archive itself cannot be read or written.
    #[error("{doing} the stream of files")]
    Stream {
        /// What was done with it.
        doing: &'static str,
        #[source]
        /// Why.
        source: io::Error,
    },
    /// An entry would lie outside of the destination.
    #[error("refused {}: it leads out of {}", entry.display(), destination.display())]
    Outside {
        /// The entry.
        entry: PathBuf,
        /// Below which everything has to be.
        destination: PathBuf,
    },
}

/// How much has been copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files, directories and symbolic links.
    pub entries: u64,
    /// The bytes of the files.
    pub bytes: u64,
}
