//! What every answer needs: the broker, the users of jobs, and the phases of the pod's start.

use crate::feed::Feed;
use crate::instance::{Rank, Standing, resources};
use crate::job;
use crate::submission::Defaults;
use crate::v1::session::Sessions;
use axum::extract::State;
use flux_contract::token::fingerprint;
use flux_contract::{Phase, RestTokens, ServedInstance};
use flux_protocol::client::job_list::Job;
use flux_protocol::client::{BrokerAddress, BrokerSocket, SocketError, within};
use flux_protocol::jobspec::flux_run_environment;
use flux_server::users::{User, name_of, users};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;

/// How long a broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The context, as the calls get it.
pub(crate) type Shared = State<Arc<Context>>;

pub(crate) struct Context {
    broker: BrokerAddress,
    /// The tokens that are accepted now.
    pub(crate) tokens: watch::Sender<RestTokens>,
    /// A token that was made here, and the code that is exchanged once for it.
    code: Mutex<Option<NewToken>>,
    pub(crate) sessions: Sessions,
    pub(crate) feed: Feed,
    /// Name of the MiniCluster.
    pub(crate) cluster: String,
    users: Vec<User>,
    pub(crate) defaults: Defaults,
    /// The file in which PID 1 reports its progress.
    agent: PathBuf,
    /// The phases of the start, for a user who may not read that file.
    timeline: Vec<Phase>,
}

/// A token that was made here. Its code may be seen by others, as in the arguments of a program that opens an address, and
/// is of no use after its exchange.
#[derive(Clone)]
pub(crate) struct NewToken {
    pub(crate) token: String,
    pub(crate) code: String,
}

impl Context {
    /// The context of this process, whose user, environment and directory jobs get.
    pub(crate) fn new(
        instance: ServedInstance,
        tokens: RestTokens,
        new_token: Option<NewToken>,
        sessions: Sessions,
    ) -> Self {
        // A job cannot have variables that are not UTF-8.
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let directory = env::current_dir().unwrap_or_else(|_| "/".into());
        let defaults = Defaults {
            directory: directory.display().to_string(),
            environment: flux_run_environment(variables.collect()),
            limits: instance.limits,
            validated: instance.validated,
            uid: nix::unistd::geteuid().as_raw(),
        };
        Self {
            broker: BrokerAddress { socket: instance.broker, owner: None },
            tokens: watch::Sender::new(tokens),
            code: Mutex::new(new_token),
            sessions,
            feed: Feed::new(),
            cluster: instance.cluster,
            users: users(&fs::read(&instance.users).unwrap_or_default()).collect(),
            defaults,
            agent: instance.agent,
            timeline: instance.timeline,
        }
    }

    /// The token, at the first use of its code.
    pub(crate) fn token_of(&self, code: &str) -> Option<String> {
        let given = fingerprint(code);
        let is_code =
            |new: &mut NewToken| fingerprint(&new.code).as_bytes().ct_eq(given.as_bytes()).into();
        self.code.lock().take_if(is_code).map(|new| new.token)
    }

    /// The name of a user, or the number where there is no name.
    pub(crate) fn user(&self, uid: u32) -> String {
        name_of(self.users.iter().cloned(), uid)
    }

    pub(crate) fn uid_of(&self, name: &str) -> Option<u32> {
        self.users.iter().find(|user| user.name == name).map(|user| user.uid)
    }

    pub(crate) async fn connect(&self) -> Result<BrokerSocket, SocketError> {
        within(CONNECT_TIMEOUT, "a connection", self.broker.connect()).await
    }

    /// The job as the API has it.
    pub(crate) fn job(&self, listed: &Job) -> Value {
        job::document(listed, &self.user(listed.userid))
    }

    /// The ranks of the instance, as the API has them.
    pub(crate) async fn resources(&self) -> Result<Value, SocketError> {
        let ranks = resources(&mut self.connect().await?).await?;
        let ranks: Vec<_> = ranks.iter().map(Rank::document).collect();
        Ok(json!({ "ranks": ranks }))
    }

    pub(crate) async fn instance(&self) -> Result<Value, SocketError> {
        let standing = Standing::of(&mut self.connect().await?).await?;
        let timeline = phases(&self.agent);
        let timeline = timeline.as_ref().unwrap_or(&self.timeline);
        Ok(standing.document(&self.cluster, timeline, now()))
    }
}

/// Seconds of Unix time.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The phases that are over, by the report of PID 1.
fn phases(agent: &Path) -> Option<Vec<Phase>> {
    let mut report: Value = serde_json::from_slice(&fs::read(agent).ok()?).ok()?;
    let mut phases: Vec<Phase> = serde_json::from_value(report.get_mut("phases")?.take()).ok()?;
    phases.pop();
    Some(phases)
}
