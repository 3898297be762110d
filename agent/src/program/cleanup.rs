//! Flux's cleanup, where there is something to clean up.
//!
//! When the initial program has ended, Flux stops its queues, cancels the jobs that still run, and waits until none
//! does. These are Python programs, one after the other: about a second on two busy cores, after each command. Flux
//! registers them when it starts (`push-cleanup` in `etc/modprobe/rc1.py` of flux-core 0.88), unless [`DISABLE`] is
//! set. So that is set where a wrapper is there to register them when the command has ended and has left jobs.

use crate::program::refusal::ask;
use crate::system::output;
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The variable that keeps Flux from registering its cleanup, and its value: some releases ask for this one.
pub(crate) const DISABLE: (&str, &str) = ("FLUX_DISABLE_JOB_CLEANUP", "t");

/// What Flux would have registered, in the order in which it is done. Without `flux resource acquire-mute`, which
/// only spares the scheduler some messages, and is missing in older releases.
const TASKS: &str = "\
flux queue stop --quiet --all --nocheckpoint
flux cancel --user=all --quiet --states RUN
flux queue idle --quiet
";

/// How long the registration may take, on a machine with much to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// Registers the cleanup with the broker unless it is certain that no job is left; says so when that fails.
pub(crate) async fn register_if_needed(flux: &str) {
    if leaves_no_job(flux).await {
        return;
    }
    let registered = timeout(PATIENCE, register(flux)).await;
    let why = match registered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(output) if output.status.success() => return,
        Ok(output) => {
            format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
        }
        Err(error) => error.to_string(),
    };
    output::log_line(&format!(
        "jobs that still run end with their pods, not by Flux: {flux} admin cleanup-push: {why}"
    ));
}

/// Whether no job is pending, running or about to end. The module that keeps the jobs counts them.
async fn leaves_no_job(flux: &str) -> bool {
    let question = ["module", "stats", "--parse=active_jobs", "job-manager"];
    let answer = ask(flux, &question).await;
    answer.is_some_and(|it| it.status.success() && it.stdout.trim_ascii() == b"0")
}

/// flux-admin(1): commands on standard input are run in their order.
async fn register(flux: &str) -> io::Result<Output> {
    let mut command = Command::new(flux);
    command.args(["admin", "cleanup-push"]).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(TASKS.as_bytes()).await?;
    }
    child.wait_with_output().await
}
