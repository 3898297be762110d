//! Why there is no account for the broker.

use crate::accounts::passwd::NoFreeId;
use std::io;
use std::path::PathBuf;

/// Why there is no usable account.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountError {
    /// The name or home directory cannot be written into passwd(5).
    #[error("user {text:?} cannot be added: ':' and line breaks do not fit /etc/passwd")]
    Field { text: String },
    /// A file of the user database could not be read.
    #[error("could not read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// A file of the user database could not be written.
    #[error(
        "could not add user {name:?} to {}; add the user to the image, make the file writable, or set commands.runFluxAsRoot",
        path.display()
    )]
    Write {
        name: String,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// No number is left.
    #[error("could not add user {name:?}")]
    Full {
        name: String,
        #[source]
        cause: NoFreeId,
    },
}
