//! `flux` as a client of this pod's broker, run as the broker's user.

use crate::execute::session::Session;
use crate::process::children::Children;
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
    pub uri: String,
}

impl FluxClient {
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let mut command = self.session.broker_command(words);
        command.env("FLUX_URI", &self.uri);
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
