//! The modules of a broker, among them the scheduler.

use crate::client::socket::{BrokerAddress, NODE_ANY, Result, field};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The state of a module that is being loaded (flux-core, `broker/module.h`).
const INIT: u32 = 0;
/// The service that a scheduler offers (RFC 27).
pub const SCHEDULER: &str = "sched";
/// Pause between two requests while the scheduler is being loaded.
const SCHEDULER_INTERVAL: Duration = Duration::from_millis(20);
/// How long the broker may list neither a scheduler nor a module that is being loaded, because a scheduler may run before it
/// offers its service.
const SCHEDULER_ABSENCE: Duration = Duration::from_secs(10);
/// Pause between two requests while a module is not listed.
const MODULE_INTERVAL: Duration = Duration::from_millis(5);

/// A module that is loaded, or being loaded.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The name of the module.
    pub name: String,
    /// The file of the module, or `builtin`.
    pub path: String,
    services: Vec<String>,
    status: u32,
}

/// The modules of the broker.
pub async fn modules(broker: &BrokerAddress) -> Result<Vec<Module>> {
    field(broker.ask("module.list", NODE_ANY, None).await?, "mods")
}

/// Waits for the scheduler of a broker that has begun to load it. Returns whether there is a scheduler at the end, or `None`
/// if the broker does not answer.
pub async fn wait_for_scheduler(broker: BrokerAddress) -> Option<bool> {
    let mut last_seen = Instant::now();
    while last_seen.elapsed() < SCHEDULER_ABSENCE {
        let modules = modules(&broker).await.ok()?;
        if modules.iter().flat_map(|module| &module.services).any(|name| name == SCHEDULER) {
            return Some(true);
        }
        if modules.iter().any(|module| module.status == INIT) {
            last_seen = Instant::now();
        }
        sleep(SCHEDULER_INTERVAL).await;
    }
    Some(false)
}

/// Waits until the broker lists the module `name`.
pub async fn wait_for_module(broker: &BrokerAddress, name: &str) -> Result<()> {
    while !modules(broker).await?.iter().any(|module| module.name == name) {
        sleep(MODULE_INTERVAL).await;
    }
    Ok(())
}
