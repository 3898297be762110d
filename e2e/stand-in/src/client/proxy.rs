//! `flux proxy`.

use std::os::unix::net::UnixStream;
use std::process::Command;

use super::Call;
use super::connection::socket_path;
use crate::failure::{Failure, strerror};
use crate::jobs::task::exit_code;

/// `flux proxy URI [COMMAND...]`: runs a command through the shell with `FLUX_URI` set.
pub(crate) fn run(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("proxy", "f|force! n|nohup! reconnect!")?;
    let Some((uri, command)) = parsed.rest.split_first() else {
        return Err(Failure::new("Usage: flux-proxy [OPTIONS] JOBID|URI [COMMAND...]"));
    };
    let fault = |error: &std::io::Error| Failure::new(format!("flux-proxy: {}", strerror(error)));
    UnixStream::connect(socket_path(uri)?).map_err(|error| fault(&error))?;
    let shell = call.environment.get("SHELL").map_or("/bin/sh", String::as_str);
    let mut child = Command::new(shell);
    if !command.is_empty() {
        child.arg("-c").arg(command.join(" "));
    }
    child.env_clear().envs(&call.environment).env("FLUX_URI", uri);
    let status = child.status().map_err(|error| fault(&error))?;
    Ok(u8::try_from(exit_code(status)).unwrap_or(1))
}
