//! `flux-agent probe`: checks whether a broker would accept this pod.

use crate::commands::arguments::{OutputArgument, PodArguments, duration};
use crate::commands::pod::{PodContext, read_certificate};
use crate::failure::{Failure, NO, Result};
use crate::lead::probe::{Outcome, probe};
use crate::lead::resolver::lookup;
use crate::plan::decide;
use clap::Args;
use flux_contract::Exit;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Probe {
    #[command(flatten)]
    pod: PodArguments,
    /// Host name or address and port; that of the lead if not given
    #[arg(value_name = "HOST:PORT")]
    target: Option<String>,
    /// The certificate; that of this pod if not given
    #[arg(long, value_name = "PATH")]
    certificate: Option<PathBuf>,
    /// How long, in seconds
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    output: OutputArgument,
}

/// Probes every address of the target, or of the lead. With a target and a certificate, no configuration is needed.
pub(crate) async fn run(arguments: &Probe) -> Result<()> {
    let Probe { target, certificate, timeout, output, .. } = arguments;
    let pod = || PodContext::read(&arguments.pod);
    let (name, port) = if let Some(target) = target {
        host_and_port(target)?
    } else {
        let pod = pod()?;
        let lead = decide::lead(&pod.config, &pod.facts)?;
        (lead.address.map_or(lead.name, |address| address.to_string()), lead.port)
    };
    let certificate = match certificate {
        Some(path) => read_certificate(path)?,
        None => read_certificate(&pod()?.certificate_path())?,
    };
    let addresses =
        lookup(&name).await.map_err(|error| Failure::with_code(NO, format!("{error:#}")))?;
    let mut done = Err(Failure::with_code(NO, ""));
    for address in addresses {
        let address = SocketAddr::new(address, port);
        let outcome = probe(address, &certificate, duration(*timeout), duration(*timeout)).await;
        let accepted = outcome == Outcome::Accepted;
        if accepted {
            done = Ok(());
        }
        let answer = serde_json::json!({
            "address": address.to_string(),
            "accepted": accepted,
            "outcome": outcome.to_string(),
        });
        output.print(&answer, || format!("{address}: {outcome}\n"));
    }
    done
}

/// `host:port`, `1.2.3.4:port` or `[::1]:port`.
fn host_and_port(target: &str) -> Result<(String, u16)> {
    let parsed = target.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some((host.to_owned(), port.parse().ok()?))
    });
    parsed.ok_or_else(|| {
        let message = format!("{target:?} is not HOST:PORT");
        Failure::new(Exit::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_names_or_addresses() {
        assert_eq!(host_and_port("hello-0.hello:8050"), Ok(("hello-0.hello".to_owned(), 8050)));
        assert_eq!(host_and_port("[fd00::1]:8050"), Ok(("fd00::1".to_owned(), 8050)));
        for wrong in ["hello", "hello:port"] {
            assert_eq!(host_and_port(wrong).unwrap_err().code, 64);
        }
    }
}
