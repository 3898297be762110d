//! `flux-agent resolve`: the answer of each name server of the pod for a name, and the time that it takes.

use crate::commands::arguments::OutputArgument;
use crate::failure::{Failure, Result, ended_with};
use crate::lead::resolver::{Answer, Resolution, resolution};
use clap::Args;
use flux_contract::Exit;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The name: complete if it ends with a dot, else completed by the search list as for every program of the pod
    name: String,
    #[command(flatten)]
    output: OutputArgument,
}

/// Prints the answers, and exits with 1 if no server knows the name.
pub(crate) async fn run(resolve: &Resolve) -> Result<()> {
    let found = resolution(&resolve.name).await;
    let found = found.map_err(|error| Failure::new(Exit::Prepare, format!("{error:#}")))?;
    resolve.output.print(&found, || text(&found));
    ended_with(u8::from(!found.is_known()))
}

fn text(found: &Resolution) -> String {
    let list = |addresses: &[std::net::IpAddr]| {
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if texts.is_empty() { "-".to_owned() } else { texts.join(" ") }
    };
    let search = if found.search.is_empty() { "-".to_owned() } else { found.search.join(" ") };
    let mut text = format!("name        {}\nsearch list {search}\n", found.name);
    let _ = writeln!(text, "/etc/hosts  {}", list(&found.hosts));
    for Answer { server, milliseconds, name, addresses, error } in &found.servers {
        let answer = match (name, error) {
            (Some(name), None) => format!("{} ({name})", list(addresses)),
            (_, error) => error.clone().unwrap_or_default(),
        };
        let _ = writeln!(text, "{server:<12}{milliseconds:>5} ms  {answer}");
    }
    if found.servers.is_empty() {
        text.push_str(
            "there is no name server in /etc/resolv.conf: see dnsPolicy and dnsConfig of the pod\n",
        );
    }
    text
}
