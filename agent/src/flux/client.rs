//! `flux` as a client of this pod's broker, run as the broker's user.

use crate::execute::session::Session;
use crate::process::children::Children;
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
        let words: Vec<String> = [&self.flux.as_str()]
            .into_iter()
            .chain(arguments)
            .map(|word| (*word).to_owned())
            .collect();
        let mut command = self.command(&words);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = self.children.spawn(&mut command)?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let talk = async {
            if let (Some(input), Some(mut stdin)) = (input, running.stdin()) {
                stdin.write_all(input.as_bytes()).await?;
            }
            if let (Some(mut out), Some(mut err)) = (running.stdout(), running.stderr()) {
                tokio::try_join!(out.read_to_end(&mut stdout), err.read_to_end(&mut stderr))?;
            }
            running.wait().await
        };
        let status = timeout(limit, talk).await??;
        Ok(Output { status, stdout, stderr })
    }
}
