//! Services of every broker: its state, attributes, groups and place in the overlay network.

use crate::client::socket::{BrokerAddress, BrokerSocket, LEAD, NODE_ANY, Result, field, within};
use crate::idset::ids_of;
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use std::iter;
use std::time::Duration;

const STATE: &str = "state-machine.get";
const STATE_CHANGES: &str = "state-machine.monitor";
/// What `flux shutdown` shows of the log by default: level `info`.
const LOG_INFO: u8 = 6;
/// How long a broker may take to give its state, which it has in memory.
const STATE_TIMEOUT: Duration = Duration::from_secs(1);

/// A rank of the overlay network and the ranks below it.
#[derive(Deserialize)]
struct Subtree {
    rank: u32,
    #[serde(default)]
    children: Vec<Self>,
}

impl Subtree {
    fn ranks(&self) -> Vec<u32> {
        let below = self.children.iter().flat_map(Self::ranks);
        iter::once(self.rank).chain(below).collect()
    }
}

impl BrokerAddress {
    /// The state of the broker, by the name that Flux gives it: `join`, `init`, `quorum`, `run`, `cleanup`, ...
    pub async fn state(&self) -> Result<String> {
        let state = async { self.connect().await?.state(NODE_ANY).await };
        within(STATE_TIMEOUT, STATE, state).await
    }

    /// Adds shell `commands` that the broker runs in its state `cleanup`, the last one first (flux-core,
    /// `src/broker/runat.c`).
    pub async fn push_cleanup(&self, commands: &[&str]) -> Result<()> {
        let pushed = json!({ "name": "cleanup", "commands": commands });
        self.ask("runat.push", NODE_ANY, Some(&pushed)).await.map(|_: Value| ())
    }
}

impl BrokerSocket {
    /// The state of the broker `node`.
    pub async fn state(&mut self, node: u32) -> Result<String> {
        field(self.ask(STATE, node, None).await?, "state")
    }

    /// Asks the broker to report each change of its state. Only [`Self::state_change`] may follow.
    pub async fn monitor_state(&mut self) -> Result<()> {
        self.stream(STATE_CHANGES, NODE_ANY, None).await
    }

    /// Waits for the next change. The new state is not returned, as its number differs between releases of Flux.
    pub async fn state_change(&mut self) -> Result<()> {
        self.receive(STATE_CHANGES).await.map(|_: Value| ())
    }

    /// Ends the instance, as `flux shutdown --background` does (flux-core, `src/broker/shutdown.c`).
    pub async fn shut_down(&mut self) -> Result<()> {
        let level = json!({ "loglevel": LOG_INFO });
        self.ask_lead("shutdown.start", &level).await.map(|_: Value| ())
    }

    /// The attribute `name` of the broker `node` (flux-broker-attributes(7)), if it is set.
    pub async fn attribute(&mut self, node: u32, name: &str) -> Result<Option<String>> {
        match self.ask_node("attr.get", node, &json!({ "name": name })).await {
            Err(error) if error.is(Errno::ENOENT) => Ok(None),
            answer => field(answer?, "value"),
        }
    }

    /// The online ranks that the broker `node` knows (flux-core, `src/modules/groups/groups.c`).
    pub async fn online(&mut self, node: u32) -> Result<Vec<u32>> {
        let group = json!({ "name": "broker.online" });
        let members: String = field(self.ask_node("groups.get", node, &group).await?, "members")?;
        Ok(ids_of(&members).unwrap_or_default())
    }

    /// The `rank` and the ranks below it in the overlay network that the broker knows, in order.
    pub async fn subtree(&mut self, rank: u32) -> Result<Vec<u32>> {
        let asked = json!({ "rank": rank });
        let subtree: Subtree = self.ask("overlay.topology", NODE_ANY, Some(&asked)).await?;
        let mut ranks = subtree.ranks();
        ranks.sort_unstable();
        Ok(ranks)
    }

    /// Asks the broker `node`; the lead has five seconds for its answer.
    async fn ask_node(&mut self, topic: &str, node: u32, payload: &Value) -> Result<Value> {
        if node == LEAD {
            return self.ask_lead(topic, payload).await;
        }
        self.ask(topic, node, Some(payload)).await
    }
}
