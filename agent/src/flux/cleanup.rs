//! Flux's cleanup, where there is something to clean up.
//!
//! When the initial program has ended, Flux stops its queues, cancels the jobs that still run, and waits until none
//! does. These are Python programs, one after the other: about a second on two busy cores, after each command. Flux
//! registers them when it starts (`push-cleanup` in `etc/modprobe/rc1.py` of flux-core 0.88), unless [`DISABLE`] is
//! set. So that is set for a broker with a command, and they are registered when the command has ended and has left jobs.
//!
//! [`DISABLE`]: crate::plan::environment::DISABLE_JOB_CLEANUP

use crate::flux::client::FluxClient;
use crate::system::output::Log;
use std::io;
use std::time::Duration;

/// What Flux would have registered, in the order in which it is done. Without `flux resource acquire-mute`, which
/// only spares the scheduler some messages, and is missing in older releases.
const TASKS: &str = "\
flux queue stop --quiet --all --nocheckpoint
flux cancel --user=all --quiet --states RUN
flux queue idle --quiet
";

/// How long the registration may take, on a machine with much to do.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the question for jobs may take, which the broker answers from memory.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Registers the cleanup with the broker unless it is certain that no job is left; says so when that fails.
pub(crate) async fn register_if_needed(client: &FluxClient, log: Log) {
    if leaves_no_job(client).await {
        return;
    }
    // flux-admin(1): commands on standard input are run in their order.
    let registered =
        client.ask(&["admin", "cleanup-push"], Some(TASKS), REGISTRATION_TIMEOUT).await;
    let why = match registered {
        Ok(output) if output.status.success() => return,
        Ok(output) => {
            format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
        }
        Err(error) => error.to_string(),
    };
    log.error(&format!(
        "jobs that still run end with their pods, not by Flux: {} admin cleanup-push: {why}",
        client.flux
    ));
}

/// Whether no job is pending, running or about to end. The module that keeps the jobs counts them.
async fn leaves_no_job(client: &FluxClient) -> bool {
    let question = ["module", "stats", "--parse=active_jobs", "job-manager"];
    let answer: io::Result<_> = client.ask(&question, None, QUESTION_TIMEOUT).await;
    answer.is_ok_and(|it| it.status.success() && it.stdout.trim_ascii() == b"0")
}
