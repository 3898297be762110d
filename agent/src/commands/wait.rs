//! `flux-agent wait`: until something is there.

use crate::commands::arguments::{Awaited, PodArguments, patience};
use crate::commands::failure::{Done, NO, failed};
use crate::commands::pod::{Pod, certificate_at};
use crate::commands::running_agent::{PATIENCE, PAUSE, agent_socket, layout};
use crate::lead::wait::wait_for_lead;
use crate::status::client::ask;
use crate::system::output::complain;
use crate::system::root::Root;
use flux_contract::Exit;
use std::path::Path;
use std::time::Duration;

/// Waits for `what`, `seconds` long at most.
pub(crate) async fn run(what: Awaited, arguments: &PodArguments, seconds: u64) -> Done {
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
        return Ok(());
    }
    complain(&format!("still waiting after {seconds} s"));
    Err(NO)
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

async fn wait_lead(arguments: &PodArguments, patience: Duration) -> Done {
    let pod = Pod::read(arguments)?;
    let (certificate, lead) = (certificate_at(&pod.certificate_path())?, pod.lead()?);
    let mut report = |line: &str| complain(line);
    let found = wait_for_lead(&lead, &certificate, patience, &mut report).await;
    found.map(drop).map_err(|error| failed(Exit::LeadUnreachable, &error))
}
