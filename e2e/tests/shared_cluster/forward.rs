//! `kubectl port-forward`, for programs beside the cluster.

use crate::prelude::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

/// A forwarded port; it is closed when this is dropped.
pub(crate) struct Forward {
    kubectl: Child,
    /// kubectl ends when it cannot write a line for each connection.
    _output: BufReader<ChildStdout>,
    /// Address and port.
    pub(crate) address: String,
}

impl Forward {
    /// Forwards `port` of a Service of `namespace`.
    pub(crate) fn to(trial: &Trial, namespace: &str, service: &str, port: u16) -> Result<Self> {
        let (service, port) = (format!("service/{service}"), format!(":{port}"));
        let words = ["port-forward", "--namespace", namespace, &service, &port];
        let mut kubectl = trial.kubectl_command(&words);
        let mut kubectl = kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let mut output = BufReader::new(kubectl.stdout.take().context("it has no output")?);
        output.read_line(&mut line)?;
        let address = line.strip_prefix("Forwarding from ").and_then(|it| it.split(' ').next());
        let address = address.with_context(|| format!("it prints {line:?}"))?.to_owned();
        Ok(Self { kubectl, _output: output, address })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
