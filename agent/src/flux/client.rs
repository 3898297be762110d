//! `flux` as a client of this pod's broker, run as the broker's user.

use crate::execute::session::Session;
use crate::process::children::Children;
use crate::system::output::Log;
use flux_protocol::client::{BrokerAddress, job_manager};
use std::io;
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

#[derive(Debug, Clone)]
pub(crate) struct FluxClient {
    pub session: Session,
    pub children: Children,
    pub flux: String,
    pub broker: BrokerAddress,
}

impl FluxClient {
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let mut command = self.session.broker_command(words);
        command.env("FLUX_URI", format!("local://{}", self.broker.socket.display()));
        command
    }

    /// What `flux` with `arguments` answers to `input`. A process that takes longer than `limit` is killed.
    pub(crate) async fn ask(
        &self,
        arguments: &[&str],
        input: Option<&str>,
        limit: Duration,
    ) -> io::Result<Output> {
        let words: Vec<String> =
            [&[&*self.flux], arguments].concat().into_iter().map(str::to_owned).collect();
        let mut command = self.command(&words);
        timeout(limit, self.children.output(&mut command, input)).await?
    }
}

/// Flux's cleanup: Python programs that take about a second on two busy cores. Flux registers them when it starts
/// (`push-cleanup` in `etc/modprobe/rc1.py` of flux-core 0.88), unless
/// [`DISABLE_JOB_CLEANUP`](crate::plan::variables::DISABLE_JOB_CLEANUP) is set. So that is set for a broker with a
/// command, and they are registered when the command has ended and has left jobs. Without `flux resource
/// acquire-mute`, which older releases do not have.
const TASKS: &str = "\
flux queue stop --quiet --all --nocheckpoint
flux cancel --user=all --quiet --states RUN
flux queue idle --quiet
";

/// How long the registration may take, on a machine with much to do.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Registers the cleanup with the broker unless it is certain that no job is left; says so when that fails.
pub(crate) async fn register_cleanup(client: &FluxClient, log: Log) {
    if job_manager::active(&client.broker).await == Some(0) {
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
