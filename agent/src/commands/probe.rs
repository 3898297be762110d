//! `flux-agent probe`: whether a broker's port would let this pod in.

use crate::commands::arguments::{Format, OutputArgument, PodArguments, duration};
use crate::commands::error::CommandError;
use crate::commands::pod::{PodContext, certificate_at};
use crate::lead::probe::probe;
use crate::lead::resolver::lookup;
use crate::system::output::{chain, print_json, print_line};
use flux_contract::Exit;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Asks every address of `target`, or of the lead.
pub(crate) async fn run(
    arguments: &PodArguments,
    target: Option<&str>,
    certificate: Option<PathBuf>,
    seconds: u64,
    output: OutputArgument,
) -> Result<(), CommandError> {
    let (certificate, name, port) = match (target, certificate) {
        (Some(target), Some(path)) => {
            let certificate = certificate_at(&path)?;
            let (name, port) = host_and_port(target)?;
            (certificate, name, port)
        }
        (target, certificate) => {
            let pod = PodContext::read(arguments)?;
            let (name, port) = if let Some(target) = target {
                host_and_port(target)?
            } else {
                let lead = pod.lead()?;
                let name = lead.address.map_or(lead.name, |address| address.to_string());
                (name, lead.port)
            };
            let path = certificate.unwrap_or_else(|| pod.certificate_path());
            (certificate_at(&path)?, name, port)
        }
    };
    let addresses = lookup(&name).await.map_err(|error| CommandError::no(chain(&error)))?;
    let mut done = Err(CommandError::printed_no());
    for address in addresses {
        let address = SocketAddr::new(address, port);
        let outcome = probe(address, &certificate, duration(seconds), duration(seconds)).await;
        if outcome.is_accepted() {
            done = Ok(());
        }
        match output.output {
            Format::Text => print_line(&format!("{address}: {outcome}")),
            Format::Json => print_json(&serde_json::json!({
                "address": address.to_string(),
                "accepted": outcome.is_accepted(),
                "outcome": outcome.to_string(),
            })),
        }
    }
    done
}

/// `host:port`, `1.2.3.4:port` or `[::1]:port`.
fn host_and_port(target: &str) -> Result<(String, u16), CommandError> {
    let parsed = target.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some((host.to_owned(), port.parse().ok()?))
    });
    parsed.ok_or_else(|| {
        let message = format!("{target:?} is not HOST:PORT");
        CommandError::with_message(Exit::Usage.code(), message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn targets_may_be_names_and_addresses_of_both_kinds() {
        assert_eq!(host_and_port("hello-0.hello:8050"), Ok(("hello-0.hello".to_owned(), 8050)));
        assert_eq!(host_and_port("[fd00::1]:8050"), Ok(("fd00::1".to_owned(), 8050)));
        for wrong in ["hello", "hello:port"] {
            assert_eq!(host_and_port(wrong).unwrap_err().code, 64);
        }
    }
}
