//! `flux-agent fluxion`: makes Fluxion the scheduler of a running instance. `load-fluxion.sh` calls this after it has put
//! Flux on the paths. Its rules:
//! - Fluxion's modules need all resources: beside another scheduler they fail, and a failed module ends the broker. So this
//!   removes the other scheduler first, and loads it again if Fluxion cannot be loaded.
//! - Only the lead has a scheduler; on a worker the modules would fail in the same way.
//! - It refuses while jobs run: Fluxion cannot take over a job without a time limit, and ends it.

use crate::failure::{Failure, NO, Result, ended_with};
use crate::process::exit_status::{exit_code, start_failure_code};
use crate::system::output::{print_line, print_stderr};
use flux_contract::Layout;
use std::process::{Command, Stdio};

/// The module that matches jobs with resources.
const RESOURCE: &str = "sched-fluxion-resource";
/// The module that keeps the queue. Fluxion is the scheduler if it is loaded.
const QUEUE_MANAGER: &str = "sched-fluxion-qmanager";
/// The module that checks whether a job could ever run. Older releases of Fluxion have none.
const FEASIBILITY: &str = "sched-fluxion-feasibility";
/// The kinds of resources that Fluxion manages.
const ALLOWLIST: &str = "load-allowlist=node,core,gpu";

/// Makes Fluxion the scheduler. If `flux` fails, this ends with the exit code of `flux`.
pub(crate) fn run() -> Result<()> {
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
    // Flux prints errors of these commands. Only the refusal counts.
    let _ = flux(&["module", "remove", "-f", RESOURCE]);
    if let Some(scheduler) = scheduler {
        let _ = load(&[scheduler]);
    }
    refuse(&format!("Fluxion cannot be loaded, see above: {stays}"))
}

/// The module in a line of `flux module list`, if it is the scheduler. The last column has the services of a module.
fn scheduler(line: &str) -> Option<&str> {
    let services = line.split_whitespace().next_back()?;
    let module = line.split_whitespace().next()?;
    services.split(',').any(|service| service == "sched").then_some(module)
}

fn print(text: &str) {
    print_line(&format!("load-fluxion.sh: {text}"));
}

fn refuse(text: &str) -> Result<()> {
    warn(text);
    ended_with(NO)
}

fn warn(text: &str) {
    print_stderr(&format!("load-fluxion.sh: {text}"));
}

fn load(arguments: &[&str]) -> Result<String> {
    flux(&[&["module", "load"], arguments].concat())
}

/// Runs the `flux` on the `PATH` with `arguments`, and returns its output. It is connected to the instance of the shell, or
/// else to that of this pod.
fn flux(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(Layout::CLIENT_NAME);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit());
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
