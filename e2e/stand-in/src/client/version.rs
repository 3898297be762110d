//! `flux version`.

use super::Call;
use super::connection::ask;
use crate::failure::Failure;
use crate::output;
use crate::protocol::Request;

/// `flux version`: says first that it is not real Flux.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    call.options("version", &[])?;
    output::error_line("flux stand-in: not real Flux");
    output::line("commands:    \t\t0.88.0");
    output::line("libflux-core:\t\t0.88.0");
    if let Some(uri) = call.environment.get("FLUX_URI") {
        let name = "version".to_owned();
        let version = ask(call, "flux", &Request::Attribute { name })?;
        output::line(&format!("broker:  \t\t{}", version.as_str().unwrap_or_default()));
        output::line(&format!("FLUX_URI:\t\t{uri}"));
    }
    output::line("build-options:\t\t+stand-in");
    Ok(0)
}
