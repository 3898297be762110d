//! The broker that runs rc1 or rc3, asked over its own socket.

use crate::failure::Failure;
use crate::rc::order::BrokerFacts;
use crate::rc::steps::{BACKING_MODULE, CRON_DIRECTORY, DUMP, RECOVERY, RESTORE};
use crate::system::output::chain;
use flux_contract::Exit;
use flux_protocol::client::modules::{modules, wait_for_module};
use flux_protocol::client::{BrokerAddress, NODE_ANY, SocketError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::env;

#[derive(Debug, Clone)]
pub(super) struct Broker(BrokerAddress);

impl Broker {
    /// The one that has started this process.
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let uri = env::var("FLUX_URI").unwrap_or_default();
        let Some(socket) = uri.strip_prefix("local://") else {
            let text = format!("FLUX_URI is {uri:?}: only a broker runs this, as its rc1 or rc3");
            return Err(Failure::new(Exit::Usage, text));
        };
        Ok(Self(BrokerAddress { socket: socket.into(), owner: None }))
    }

    /// What `topic` answers. Each question has a connection of its own: several are asked at once.
    pub(super) async fn ask<Answer: DeserializeOwned>(
        &self,
        topic: &str,
        payload: Option<&Value>,
    ) -> Result<Answer, SocketError> {
        self.0.connect().await?.ask(topic, NODE_ANY, payload).await
    }

    /// Waits until the module `name` is loaded, or being loaded.
    pub(super) async fn lists(&self, name: &str) -> Result<(), SocketError> {
        wait_for_module(&self.0, name).await
    }

    /// The value of an attribute, if it is set.
    async fn attribute(&self, name: &str) -> Result<Option<String>, SocketError> {
        self.0.connect().await?.attribute(NODE_ANY, name).await
    }

    pub(super) async fn facts(&self) -> Result<BrokerFacts, String> {
        let failed = |what: &str| {
            let doing = format!("ask the broker for {what}");
            move |error| format!("{doing}: {}", chain(&error))
        };
        let rank = self.attribute("rank").await.map_err(failed("its rank"))?;
        let rank = rank.and_then(|rank| rank.parse().ok()).ok_or("the broker has no rank")?;
        let config = self.ask("config.get", None).await.map_err(failed("its configuration"))?;
        let mut facts = BrokerFacts { rank, config, ..BrokerFacts::default() };
        for name in [RESTORE, DUMP, CRON_DIRECTORY, BACKING_MODULE, RECOVERY] {
            let value = self.attribute(name).await.map_err(failed(name))?;
            facts.attributes.extend(value.map(|value| (name, value)));
        }
        Ok(facts)
    }

    /// The names of the modules that are loaded and can be removed.
    pub(super) async fn loaded(&self) -> Result<Vec<String>, String> {
        let modules = modules(&self.0).await;
        let modules = modules.map_err(|error| format!("list the modules: {}", chain(&error)))?;
        let removable = modules.into_iter().filter(|module| module.path != "builtin");
        Ok(removable.map(|module| module.name).collect())
    }
}
