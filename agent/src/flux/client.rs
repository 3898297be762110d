//! `flux` as a client of this pod's broker, run as the broker's user.

use crate::execute::session::Session;
use crate::process::children::Children;
use crate::system::output::{Log, chain};
use flux_protocol::client::{BrokerAddress, job_manager, within};
use std::io;
use std::process::Output;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long `flux` may take for an answer that the broker has in memory.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(5);

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

    /// Runs `flux` with `arguments`, and returns its output. A process that takes too long is killed.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> io::Result<Output> {
        let argv: Vec<String> =
            [&[&*self.flux], arguments].concat().into_iter().map(str::to_owned).collect();
        let mut command = self.command(&argv);
        timeout(OUTPUT_TIMEOUT, self.children.output(&mut command)).await?
    }
}

/// Flux's cleanup: Python programs that take about a second on two busy cores. Flux registers them at its start
/// (`push-cleanup` in `etc/modprobe/rc1.py` of flux-core 0.88), unless
/// [`DISABLE_JOB_CLEANUP`](crate::plan::variables::DISABLE_JOB_CLEANUP) is set. The agent sets that for a broker with a
/// command, and registers them only if jobs are left at the end of the command. `flux resource acquire-mute` is left out,
/// as older releases do not have it. Flux runs the last command first.
pub(crate) const CLEANUP: [&str; 3] = [
    "flux queue idle --quiet",
    "flux cancel --user=all --quiet --states RUN",
    "flux queue stop --quiet --all --nocheckpoint",
];

/// How long the registration may take, also on a busy machine.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Registers the cleanup with the broker, unless the broker answers that no job is left. Logs a failure.
pub(crate) async fn register_cleanup(client: &FluxClient, log: Log) {
    let broker = &client.broker;
    if job_manager::active(broker).await == Some(0) {
        return;
    }
    let pushed = within(REGISTRATION_TIMEOUT, "runat.push", broker.push_cleanup(&CLEANUP)).await;
    if let Err(error) = pushed {
        let error = chain(&error);
        log.error(&format!(
            "jobs that still run end with their pods, not by Flux: register the cleanup: {error}"
        ));
    }
}
