//! The broker that runs rc1 or rc3, and its socket.

use crate::failure::{Failure, Result};
use crate::rc::order::BrokerFacts;
use crate::rc::steps::{BACKING_MODULE, CRON_DIRECTORY, DUMP, RECOVERY, RESTORE};
use crate::system::output::chain;
use flux_contract::Exit;
use flux_protocol::client::modules::modules;
use flux_protocol::client::{BrokerAddress, NODE_ANY, SocketError};
use std::env;

/// The broker that has started this process.
pub(super) fn from_environment() -> Result<BrokerAddress> {
    let uri = env::var("FLUX_URI").unwrap_or_default();
    let Some(socket) = uri.strip_prefix("local://") else {
        let text = format!("FLUX_URI is {uri:?}: only a broker runs this, as its rc1 or rc3");
        return Err(Failure::new(Exit::Usage, text));
    };
    Ok(BrokerAddress { socket: socket.into(), owner: None })
}

pub(super) async fn facts(broker: &BrokerAddress) -> Result<BrokerFacts, String> {
    let failed = |what: &'static str| {
        move |error: SocketError| format!("ask the broker for {what}: {}", chain(&error))
    };
    let mut socket = broker.connect().await.map_err(failed("its rank"))?;
    let rank = socket.attribute(NODE_ANY, "rank").await.map_err(failed("its rank"))?;
    let rank = rank.and_then(|rank| rank.parse().ok()).ok_or("the broker has no rank")?;
    let config = socket.ask("config.get", NODE_ANY, None).await;
    let config = config.map_err(failed("its configuration"))?;
    let mut facts = BrokerFacts { rank, config, ..BrokerFacts::default() };
    for name in [RESTORE, DUMP, CRON_DIRECTORY, BACKING_MODULE, RECOVERY] {
        let value = socket.attribute(NODE_ANY, name).await.map_err(failed(name))?;
        facts.attributes.extend(value.map(|value| (name, value)));
    }
    Ok(facts)
}

/// The names of the modules that are loaded and can be removed.
pub(super) async fn loaded(broker: &BrokerAddress) -> Result<Vec<String>, String> {
    let modules = modules(broker).await;
    let modules = modules.map_err(|error| format!("list the modules: {}", chain(&error)))?;
    let removable = modules.into_iter().filter(|module| module.path != "builtin");
    Ok(removable.map(|module| module.name).collect())
}
