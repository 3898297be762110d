//! `flux` as a client of this pod's broker, run as the broker's user.

use crate::execute::context::Session;
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
    pub(crate) fn command(&self, argv: &[String]) -> Command {
        let mut command = self.session.broker_command(argv);
        command.env("FLUX_URI", format!("local://{}", self.broker.socket.display()));
        command
    }

    /// Runs `flux` with `arguments` and `input`, and returns its output. A process that takes longer than `limit` is killed.
    pub(crate) async fn ask(
        &self,
        arguments: &[&str],
        input: Option<&str>,
        limit: Duration,
    ) -> io::Result<Output> {
        let argv: Vec<String> =
            [&[&*self.flux], arguments].concat().into_iter().map(str::to_owned).collect();
        let mut command = self.command(&argv);
        timeout(limit, self.children.output(&mut command, input)).await?
    }
}

/// Flux's cleanup: Python programs that take about a second on two busy cores. Flux registers them at its start
/// (`push-cleanup` in `etc/modprobe/rc1.py` of flux-core 0.88), unless
/// [`DISABLE_JOB_CLEANUP`](crate::plan::environment::DISABLE_JOB_CLEANUP) is set. The agent sets that for a broker with a
/// command, and registers them only if jobs are left at the end of the command. `flux resource acquire-mute` is left out,
/// as older releases do not have it.
const TASKS: &str = "\
flux queue stop --quiet --all --nocheckpoint
flux cancel --user=all --quiet --states RUN
flux queue idle --quiet
";

/// How long the registration may take, also on a busy machine.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Registers the cleanup with the broker, unless the broker answers that no job is left. Logs a failure.
pub(crate) async fn register_cleanup(client: &FluxClient, log: Log) {
    if job_manager::active(&client.broker).await == Some(0) {
        return;
    }
    // Flux runs the commands of standard input in their order (flux-admin(1)).
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
