//! The modules of a broker, the scheduler among them.

use crate::flux::broker_socket::{BrokerAddress, NODE_ANY, SocketError};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The state of a module that is being loaded (flux-core, `broker/module.h`).
const INIT: u32 = 0;
/// The service that a scheduler offers (RFC 27).
pub(crate) const SCHEDULER: &str = "sched";
/// Pause between two looks at a scheduler that is being loaded.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long there may be no scheduler, and none that is being loaded. A scheduler may run before it offers its service.
const ABSENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct List {
    mods: Vec<Module>,
}

/// A module that is loaded, or being loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) path: String,
    services: Vec<String>,
    status: u32,
}

pub(crate) async fn modules(broker: &BrokerAddress) -> Result<Vec<Module>, SocketError> {
    let List { mods } = broker.connect().await?.ask("module.list", NODE_ANY, None).await?;
    Ok(mods)
}

/// Waits for the scheduler of a broker that has begun to load it; whether it comes. `None` where the broker cannot be
/// asked.
pub async fn scheduler_comes(broker: BrokerAddress) -> Option<bool> {
    let mut last_seen = Instant::now();
    while last_seen.elapsed() < ABSENCE {
        let modules = modules(&broker).await.ok()?;
        if modules.iter().flat_map(|module| &module.services).any(|name| name == SCHEDULER) {
            return Some(true);
        }
        if modules.iter().any(|module| module.status == INIT) {
            last_seen = Instant::now();
        }
        sleep(INTERVAL).await;
    }
    Some(false)
}

/// Waits until the broker lists the module `name`.
pub(crate) async fn listed(broker: &BrokerAddress, name: &str) -> Result<(), SocketError> {
    while !modules(broker).await?.iter().any(|module| module.name == name) {
        sleep(INTERVAL / 4).await;
    }
    Ok(())
}
