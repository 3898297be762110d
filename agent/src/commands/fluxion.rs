//! `flux-agent fluxion`: makes Fluxion the scheduler of a running instance. `load-fluxion.sh` is this,
//! behind the line that puts Flux on the paths. Its rules:
//! - Fluxion's modules want the resources to themselves: one that is loaded beside another
//!   scheduler fails, and a module that fails takes the broker with it. So the other one goes first,
//!   whichever it is, and comes back when Fluxion cannot be had.
//! - Only the lead has a scheduler; a worker would fail in the same way.
//! - Not while jobs are running: Fluxion cannot take over one without a time limit, and ends it.

use crate::failure::{Failure, NO, ended_with};
use crate::process::exit_status::{exit_code, start_failure_code};
use crate::system::output::{print_line, print_stderr};
use flux_contract::Layout;
use std::process::{Command, Stdio};

/// Matches jobs with resources.
const RESOURCE: &str = "sched-fluxion-resource";
/// Keeps the queue; with it Fluxion is the scheduler.
const QUEUE_MANAGER: &str = "sched-fluxion-qmanager";
/// Tells whether a job could ever run; older Fluxions have none.
const FEASIBILITY: &str = "sched-fluxion-feasibility";
/// The kinds of resources that Fluxion manages.
const ALLOWLIST: &str = "load-allowlist=node,core,gpu";

/// Makes Fluxion the scheduler. Where `flux` does not answer, its code is the one to end with.
pub(crate) fn run() -> Result<(), Failure> {
    let rank = flux(&["getattr", "rank"])?;
    if rank != "0" {
        let why = "run it in the lead";
        return refuse(&format!("the scheduler is the lead's, and this is rank {rank}: {why}"));
    }
    let modules = flux(&["module", "list"])?;
    let scheduler = modules.lines().find_map(scheduler);
    if scheduler == Some(QUEUE_MANAGER) {
        print("Fluxion is the scheduler already");
        return Ok(());
    }
    let stays = format!("{} stays", scheduler.unwrap_or("no scheduler"));
    if !flux(&["job", "list", "--user=all", "--states=running"])?.is_empty() {
        return refuse(&format!("jobs are running, and might not survive it: {stays}"));
    }
    if let Some(scheduler) = scheduler {
        flux(&["module", "remove", scheduler])?;
    }
    if load(&[RESOURCE, ALLOWLIST]).and_then(|_| load(&[QUEUE_MANAGER])).is_ok() {
        if load(&[FEASIBILITY, ALLOWLIST]).is_err() {
            warn("going on without that module: older Fluxions have none");
        }
        print("Fluxion is the scheduler now");
        return Ok(());
    }
    // Flux says what fails from here on; the refusal is what counts.
    let _ = flux(&["module", "remove", "-f", RESOURCE]);
    if let Some(scheduler) = scheduler {
        let _ = load(&[scheduler]);
    }
    refuse(&format!("Fluxion cannot be loaded, see above: {stays}"))
}

/// The module of a line of `flux module list` if it is the scheduler: the last column has the
/// services of a module.
fn scheduler(line: &str) -> Option<&str> {
    let services = line.split_whitespace().next_back()?;
    let module = line.split_whitespace().next()?;
    services.split(',').any(|service| service == "sched").then_some(module)
}

fn print(text: &str) {
    print_line(&format!("load-fluxion.sh: {text}"));
}

fn refuse(text: &str) -> Result<(), Failure> {
    warn(text);
    ended_with(NO)
}

fn warn(text: &str) {
    print_stderr(&format!("load-fluxion.sh: {text}"));
}

fn load(words: &[&str]) -> Result<String, Failure> {
    flux(&[&["module", "load"], words].concat())
}

/// What `flux` prints for `words`: as the shell finds it, connected to the instance that the shell is in, else to
/// this pod's.
fn flux(words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(Layout::CLIENT_NAME);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let uri = |name| std::env::var_os(name).filter(|uri| !uri.is_empty());
    if let Some(uri) = uri("FLUX_URI").or_else(|| uri("fluxsocket")) {
        command.env("FLUX_URI", uri);
    }
    let output = command.output().map_err(|error| {
        let message = format!("start {}: {error}", Layout::CLIENT_NAME);
        Failure::with_code(start_failure_code(&error), message)
    })?;
    ended_with(u8::try_from(exit_code(output.status)).unwrap_or(u8::MAX))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
