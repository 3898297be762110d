//! `flux-agent pack` and `unpack`: copy files out of a pod and into it, without a tar in its image. They run as the user who
//! starts them: `flux-agent connect -- flux-agent pack PATH` runs as Flux's user.

use crate::failure::{Failure, Result};
use crate::system::output::log_line;
use flux_contract::Exit;
use flux_transfer::{Destination, TransferError};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// The size of the buffer for reading and writing, in bytes.
const BUFFER: usize = 64 << 10;

pub(crate) fn pack(path: &Path) -> Result<()> {
    let stream = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let skipped = |path: &Path| {
        let path = path.display();
        log_line(&format!("skipped {path}: only files, directories and links are copied"));
    };
    flux_transfer::pack(path, stream, skipped).map(drop).map_err(|error| failed(&error))
}

pub(crate) fn unpack(path: PathBuf, name: Option<String>) -> Result<()> {
    let stream = BufReader::with_capacity(BUFFER, io::stdin().lock());
    let destination = Destination { path, name };
    flux_transfer::unpack(stream, &destination).map(drop).map_err(|error| failed(&error))
}

fn failed(error: &TransferError) -> Failure {
    Failure::because(Exit::Prepare, "copy", error)
}
