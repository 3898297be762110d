//! `flux dump`.

use std::path::Path;

use super::Call;
use super::connection::ask;
use crate::broker::content;
use crate::failure::Failure;
use crate::options::{Argument, long, short};
use crate::protocol::Request;

/// `flux dump FILE`. The file can be restored by a stand-in only.
pub(crate) fn dump(call: &Call) -> Result<u8, Failure> {
    let choices = [
        long("checkpoint", Argument::None),
        long("no-cache", Argument::None),
        short("quiet", 'q', Argument::None),
        short("verbose", 'v', Argument::Optional),
    ];
    let parsed = call.options("dump", &choices)?;
    call.refuse_in_batch("dump")?;
    let [file] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux-dump [OPTIONS] OUTFILE"));
    };
    let found = ask(call, "flux-dump", &Request::Content)?;
    content::write(Path::new(file), &found)
        .map_err(|error| Failure::new(format!("flux-dump: {error}")))?;
    Ok(0)
}
