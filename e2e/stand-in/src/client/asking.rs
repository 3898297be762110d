//! Commands that ask one thing.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::connection::ask;
use super::{Call, user_name};
use crate::failure::{Failure, strerror};
use crate::output;
use crate::protocol::Request;

/// What rc1 registers (flux-core, `push-cleanup` in `etc/modprobe/rc1.py`), in the order in which it runs.
const CLEANUP: &str = "flux queue stop --quiet --all --nocheckpoint\n\
flux cancel --user=all --quiet --states RUN\nflux queue idle --quiet\n";

/// `flux env COMMAND`: becomes the command.
pub(crate) fn env(call: &Call) -> Result<u8, Failure> {
    let Some((program, arguments)) = call.words.split_first() else {
        return Err(Failure::not_simulated("env without a command"));
    };
    let error = Command::new(program).args(arguments).envs(&call.environment).exec();
    Err(Failure::new(format!("flux-env: execvp ({program}): {}", strerror(&error))))
}

/// `flux getattr NAME`.
pub(crate) fn attribute(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("getattr", "")?;
    let [name] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux getattr name"));
    };
    call.refuse_in_batch("getattr")?;
    let value = ask(call, &format!("flux-getattr: {name}"), &Request::Attribute(name.clone()))?;
    output::line(value.as_str().unwrap_or_default());
    Ok(0)
}

/// `flux uptime`: ` 12:34:56 run 1.2m,  owner flux,  depth 0,  size 4`.
pub(crate) fn uptime(call: &Call) -> Result<u8, Failure> {
    call.options("uptime", "")?;
    call.refuse_in_batch("uptime")?;
    let state = ask(call, "flux-uptime", &Request::State)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86400;
    let owner = user_name(state["owner"].as_u64().unwrap_or_default());
    output::line(&format!(
        " {:02}:{:02}:{:02} {} {:.1}s,  owner {owner},  depth 0,  size {}",
        now / 3600,
        now / 60 % 60,
        now % 60,
        state["state"].as_str().unwrap_or_default(),
        state["duration"].as_f64().unwrap_or_default(),
        state["size"],
    ));
    Ok(0)
}

/// `flux version`: says first that it is not real Flux.
pub(crate) fn version(call: &Call) -> Result<u8, Failure> {
    call.options("version", "")?;
    output::error_line("flux stand-in: not real Flux");
    output::line("commands:    \t\t0.88.0\nlibflux-core:\t\t0.88.0\nbuild-options:\t\t+stand-in");
    Ok(0)
}

/// `flux queue idle`.
pub(crate) fn queue(call: &Call) -> Result<u8, Failure> {
    let parsed = call.of_subcommand("queue", "idle", "t|timeout=! quiet")?;
    let pending = ask(call, "flux-queue: ERROR: idle", &Request::Idle(call.scope()))?;
    if !parsed.has("quiet") || pending != 0 {
        output::line(&format!("{pending} jobs"));
    }
    Ok(0)
}

/// `flux module stats --parse=active_jobs job-manager`.
pub(crate) fn module(call: &Call) -> Result<u8, Failure> {
    let parsed = call.of_subcommand("module", "stats", "p|parse=")?;
    call.refuse_in_batch("module")?;
    if parsed.value("parse") != Some("active_jobs") || parsed.rest != ["job-manager"] {
        return Err(Failure::not_simulated("module stats of anything but active jobs"));
    }
    output::line(&ask(call, "flux-module: stats", &Request::ActiveJobs)?.to_string());
    Ok(0)
}

/// `flux admin cleanup-push` with the commands that Flux itself would register.
pub(crate) fn admin(call: &Call) -> Result<u8, Failure> {
    let parsed = call.of_subcommand("admin", "cleanup-push", "")?;
    call.refuse_in_batch("admin")?;
    let commands = std::io::read_to_string(std::io::stdin()).unwrap_or_default();
    if !parsed.rest.is_empty() || commands != CLEANUP {
        return Err(Failure::not_simulated("admin cleanup-push of other commands"));
    }
    ask(call, "flux-admin: ERROR", &Request::Cleanup)?;
    Ok(0)
}

/// `flux shutdown --background`.
pub(crate) fn shutdown(call: &Call) -> Result<u8, Failure> {
    let list = "background quiet! dump=! gc! skip-gc! v|verbose?! y|yes! n|no!";
    let parsed = call.options("shutdown", list)?;
    call.refuse_in_batch("shutdown")?;
    if !parsed.has("background") || !parsed.rest.is_empty() {
        return Err(Failure::not_simulated("shutdown other than --background"));
    }
    ask(call, "flux-shutdown", &Request::Shutdown)?;
    Ok(0)
}
