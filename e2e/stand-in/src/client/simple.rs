//! Commands that ask one thing, or become another program.

use super::{Call, formatted, socket_path};
use crate::environment::Environment;
use crate::jobs::task::exit_code;
use crate::output::{self, Failure, strerror};
use crate::protocol::{Request, Wait};
use crate::release::{Feature, has, release};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `flux env COMMAND`: becomes the command.
pub(crate) fn env(call: &Call) -> Result<u8, Failure> {
    if call.words.is_empty() {
        return Err(Failure::not_simulated("env without a command"));
    }
    Err(program(&call.environment, &call.words))
}

/// `flux /PATH/TO/PROGRAM`, and what `flux env` ends with: becomes the program, unless that fails.
pub(crate) fn program(environment: &Environment, words: &[String]) -> Failure {
    let error = Command::new(&words[0]).args(&words[1..]).envs(environment).exec();
    Failure::new(format!("flux: {}: {}", words[0], strerror(&error)))
}

/// `flux start`: becomes the broker, so that process id and exit code are the broker's.
pub(crate) fn start(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("S|setattr= o|broker-opts= wrap= c|config-path=")?;
    let newer = ["setattr", "config-path"].into_iter().find(|name| parsed.has(name));
    if let Some(name) = newer.filter(|_| !has(Feature::StartOptions)) {
        return Err(Failure::new(format!("flux-start: unrecognized option '--{name}'")));
    }
    let fault = |error| Failure::new(format!("flux-start: {}", strerror(&error)));
    let own = std::env::current_exe().map_err(fault)?.display().to_string();
    let split = |name| parsed.values(name).flat_map(|text| text.split(','));
    let mut words: Vec<String> = split("wrap").map(str::to_owned).collect();
    words.extend([own, "broker".to_owned()]);
    words.extend(split("setattr").map(|value| format!("-S{value}")));
    words.extend(split("broker-opts").map(str::to_owned));
    words.extend(parsed.value("config-path").map(|path| format!("-c{path}")));
    words.extend(parsed.rest.iter().cloned());
    let mut command = Command::new(&words[0]);
    Err(fault(command.args(&words[1..]).env_clear().envs(&call.environment).exec()))
}

/// `flux proxy URI [COMMAND...]`: runs a command through the shell with `FLUX_URI` set.
pub(crate) fn proxy(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("")?;
    let Some((uri, command)) = parsed.rest.split_first() else {
        return Err(Failure::new("Usage: flux-proxy [OPTIONS] JOBID|URI [COMMAND...]"));
    };
    let fault = |error| Failure::new(format!("flux-proxy: {}", strerror(&error)));
    UnixStream::connect(socket_path(uri)?).map_err(fault)?;
    let mut child = Command::new(call.environment.get("SHELL").map_or("/bin/sh", String::as_str));
    if !command.is_empty() {
        child.arg("-c").arg(command.join(" "));
    }
    child.env_clear().envs(&call.environment).env("FLUX_URI", uri);
    let status = child.status().map_err(fault)?;
    Ok(u8::try_from(exit_code(status)).unwrap_or(1))
}

pub(crate) fn attribute(call: &Call) -> Result<u8, Failure> {
    let [name] = call.words.as_slice() else {
        return Err(Failure::new("Usage: flux getattr name"));
    };
    let value = call.ask(&format!("flux-getattr: {name}"), &Request::Attribute(name.clone()))?;
    output::line(value.as_str().unwrap_or_default());
    Ok(0)
}

/// `flux version`: prints first that it is not real Flux.
pub(crate) fn version(call: &Call) -> Result<u8, Failure> {
    let [] = call.given()[..] else { return Err(call.but("with nothing")) };
    output::error_line("flux stand-in: not real Flux");
    let release = release();
    output::line(&format!(
        "commands:    \t\t{release}\nlibflux-core:\t\t{release}\nbuild-options:\t\t+stand-in"
    ));
    Ok(0)
}

pub(crate) fn idle(call: &Call) -> Result<u8, Failure> {
    let given = call.given();
    let ([] | ["--quiet"]) = given[..] else { return Err(call.but("with --quiet or nothing")) };
    let pending = call.ask("flux-queue: ERROR: idle", &Request::Wait(Wait::Idle(call.scope())))?;
    if given.is_empty() || pending != 0 {
        output::line(&format!("{pending} jobs"));
    }
    Ok(0)
}

pub(crate) fn shutdown(call: &Call) -> Result<u8, Failure> {
    let ["--background"] = call.given()[..] else { return Err(call.but("with --background")) };
    call.ask("flux-shutdown", &Request::Shutdown)?;
    Ok(0)
}

/// How many nodes and cores are free.
pub(crate) fn list(call: &Call) -> Result<u8, Failure> {
    let ["--states=free", "-no", format] = call.given()[..] else {
        return Err(call.but("with --states=free -no FORMAT"));
    };
    let free = call.ask("flux-resource: ERROR", &Request::Resources)?;
    output::line(&formatted(format, &free)?);
    Ok(0)
}
