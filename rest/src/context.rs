//! What every answer needs: the broker, its jobs' users, and how this pod has started.

use crate::accounts::passwd::Databases;
use crate::serve::instance::{Rank, Standing, resources};
use crate::serve::job::Job;
use crate::serve::submission::Defaults;
use crate::serve::token::Token;
use crate::status::client::ask;
use flux_contract::Phase;
use flux_protocol::client::{BrokerAddress, BrokerSocket, SocketError, job_list, within};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long PID 1 may take to answer, which it does from memory.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Whom the server serves, and for whom.
pub(crate) struct Context {
    pub(crate) broker: BrokerAddress,
    pub(crate) token: Token,
    /// Name of the MiniCluster.
    pub(crate) cluster: String,
    pub(crate) accounts: Databases,
    pub(crate) defaults: Defaults,
    pub(crate) timeline: Timeline,
}

/// How this pod has started.
pub(crate) struct Timeline {
    /// Where PID 1 answers.
    agent: PathBuf,
    /// What it answered when this program was started: Flux's user may not ask the PID 1 of a container of root.
    before: Vec<Phase>,
}

impl Timeline {
    pub(crate) async fn of(agent: PathBuf) -> Self {
        let before = phases(&agent).await.unwrap_or_default();
        Self { agent, before }
    }

    async fn now(&self) -> Vec<Phase> {
        phases(&self.agent).await.unwrap_or_else(|| self.before.clone())
    }
}

/// The phases that are over.
async fn phases(agent: &Path) -> Option<Vec<Phase>> {
    let mut phases = ask(agent, STATUS_TIMEOUT).await.ok()?.phases;
    phases.pop();
    Some(phases)
}

impl Context {
    pub(crate) async fn connect(&self) -> Result<BrokerSocket, SocketError> {
        within(CONNECT_TIMEOUT, "a connection", self.broker.connect()).await
    }

    pub(super) fn name_of(&self, uid: u32) -> String {
        self.accounts.find_uid(uid).map_or_else(|| uid.to_string(), |user| user.name)
    }

    pub(super) fn job(&self, listed: job_list::Job) -> Job {
        Job::new(listed, |uid| self.name_of(uid))
    }

    /// The ranks of the instance, as the API has them.
    pub(super) async fn resources(&self) -> Result<Value, SocketError> {
        let ranks = resources(&mut self.connect().await?).await?;
        let ranks: Vec<_> = ranks.iter().map(Rank::document).collect();
        Ok(json!({ "ranks": ranks }))
    }

    /// The instance, as the API has it.
    pub(super) async fn instance(&self) -> Result<Value, SocketError> {
        let standing = Standing::of(&mut self.connect().await?).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(standing.document(&self.cluster, &self.timeline.now().await, now))
    }
}
