//! `flux proxy`.

use std::process::Command;

use super::Call;
use super::connection::socket_path;
use crate::failure::{Failure, strerror};
use crate::jobs::task::exit_code;
use crate::options::{Argument, long, short};

/// `flux proxy URI [COMMAND...]`: runs a command through the shell with `FLUX_URI` set.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let choices = [
        short("force", 'f', Argument::None),
        short("nohup", 'n', Argument::None),
        long("reconnect", Argument::None),
    ];
    let parsed = call.options("proxy", &choices)?;
    let Some((uri, command)) = parsed.rest.split_first() else {
        return Err(Failure::new("Usage: flux-proxy [OPTIONS] JOBID|URI [COMMAND...]"));
    };
    if !uri.contains("://") {
        return Err(Failure::not_simulated(&format!("resolving {uri} to a URI")));
    }
    let path = socket_path(uri)?;
    if let Err(error) = std::os::unix::net::UnixStream::connect(path) {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let text = strerror(&error);
        let text = if missing { format!("broker socket {path} was not found") } else { text };
        return Err(Failure::new(format!("flux-proxy: {uri}: {text}")));
    }
    let shell = call.environment.get("SHELL").map_or("/bin/sh", String::as_str);
    let mut child = Command::new(shell);
    if !command.is_empty() {
        child.arg("-c").arg(command.join(" "));
    }
    let status = child
        .env_clear()
        .envs(&call.environment)
        .env("FLUX_URI", uri)
        .status()
        .map_err(|error| Failure::new(format!("flux-proxy: {shell}: {}", strerror(&error))))?;
    Ok(u8::try_from(exit_code(status)).unwrap_or(1))
}
