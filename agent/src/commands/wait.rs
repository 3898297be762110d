//! `flux-agent wait`: until something is there.

use crate::commands::arguments::{Awaited, PodArguments, patience};
use crate::commands::failure::{NO, failed};
use crate::commands::pod::Pod;
use crate::commands::running_agent::{PATIENCE, PAUSE, agent_socket, layout};
use crate::lead::wait::{LeadTarget, wait_for_lead};
use crate::status::client::ask;
use crate::system::output::complain;
use crate::system::root::Root;
use flux_contract::Exit;
use std::path::Path;
use std::time::Duration;

/// Waits for `what`, `seconds` long at most.
pub(crate) async fn run(what: Awaited, arguments: &PodArguments, seconds: u64) -> u8 {
    let patience = patience(seconds);
    if what == Awaited::Lead {
        return wait_lead(arguments, patience).await;
    }
    let socket = agent_socket(arguments);
    let reached = async {
        while !reached(what, arguments, &socket).await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(patience, reached).await.is_ok() {
        return 0;
    }
    complain(&format!("still waiting after {seconds} s"));
    NO
}

async fn reached(what: Awaited, arguments: &PodArguments, socket: &Path) -> bool {
    match what {
        Awaited::Lead | Awaited::Broker => {
            ask(socket, PATIENCE).await.is_ok_and(|report| report.online)
        }
        Awaited::Complete => {
            Root::new(&arguments.root).at(layout(arguments).complete_marker()).exists()
        }
    }
}

async fn wait_lead(arguments: &PodArguments, patience: Duration) -> u8 {
    let (lead, certificate) = match Pod::read(arguments).and_then(|pod| {
        let certificate = pod.certificate(None)?;
        Ok((pod.lead()?, certificate))
    }) {
        Ok(both) => both,
        Err(code) => return code,
    };
    let target = LeadTarget { address: lead.address, name: lead.name, port: lead.port };
    let mut report = |line: &str| complain(line);
    match wait_for_lead(&target, &certificate, patience, &mut report).await {
        Ok(_) => 0,
        Err(error) => failed(Exit::LeadUnreachable, &error),
    }
}
