//! `flux-agent diagnose`: the initial program of a MiniCluster with `diagnostics: true`. It prints the state of the instance
//! and then keeps the instance running, so that a person can examine it.

use crate::process::signals::Signals;
use crate::system::output::{log_line, print_line};
use crate::system::subcommand::CONNECT;
use crate::system::words::shown;
use flux_contract::{Exit, Layout};
use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};
use tokio::process::Command;

/// The purposes and arguments of the `flux` commands to run, in order: the version, the connections of the brokers, their
/// resources, and last a job.
pub const QUESTIONS: [(&str, &[&str]); 13] = [
    ("which Flux this is", &["version"]),
    ("the hosts of the instance, in the order of their ranks", &["getattr", "hostlist"]),
    ("how many brokers there may be", &["getattr", "size"]),
    ("which brokers are connected", &["overlay", "status"]),
    ("what went wrong between brokers", &["overlay", "errors"]),
    ("whether every broker answers", &["exec", "--rank=all", "flux", "getattr", "rank"]),
    ("the resources", &["resource", "list"]),
    ("nodes that are drained or excluded, and why", &["resource", "status"]),
    ("the queue", &["queue", "status"]),
    ("the jobs", &["jobs", "-a"]),
    ("the modules of the lead broker", &["module", "list"]),
    ("the log of the lead broker", &["dmesg"]),
    ("whether a job runs", &["run", "--ntasks=1", "flux", "getattr", "instance-level"]),
];

/// Runs [`QUESTIONS`] with the program `flux`, then waits for a signal to stop.
pub(crate) async fn run(flux: &str) -> u8 {
    let signals = Signals::register();
    let signals = signals.inspect_err(|error| log_line(&format!("take signals: {error}")));
    let Ok(mut signals) = signals else { return Exit::Internal.code() };
    // A signal during the commands skips the rest of them.
    if signals.unless_stopped(ask(flux)).await.is_ok() {
        let enter = format!("{} {CONNECT}", Layout::AGENT_NAME);
        print_line(&format!(
            "== the instance stays up until the pod is deleted; enter it with: {enter}"
        ));
        signals.stop().await;
    }
    Exit::Stopped.code()
}

async fn ask(flux: &str) {
    for (purpose, arguments) in QUESTIONS {
        let argv: Vec<String> =
            [flux].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        print_line(&format!("== {purpose}: {}", shown(&argv)));
        match status(flux, arguments).await {
            Ok(status) if status.success() => {}
            Ok(status) => print_line(&format!("== failed: {status}")),
            Err(error) => print_line(&format!("== failed: {error}")),
        }
    }
}

/// Runs `flux` with its standard error on the same stream as its output, because a log with two streams has them out of
/// order.
async fn status(flux: &str, arguments: &[&str]) -> io::Result<ExitStatus> {
    let errors = io::stdout().as_fd().try_clone_to_owned()?;
    let mut command = Command::new(flux);
    command.args(arguments).stdin(Stdio::null()).stderr(errors).kill_on_drop(true);
    command.status().await
}
