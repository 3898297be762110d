//! What the steps of a run share.

use crate::execute::session::Session;
use crate::plan::budget::Budget;
use crate::plan::facts::Facts;
use crate::plan::step::Owner;
use crate::process::children::Children;
use crate::process::signals::Signals;
use crate::status::progress::Progress;
use crate::system::output::Log;
use crate::system::root::Root;
use flux_contract::AgentConfig;
use std::path::PathBuf;

pub(crate) struct Context {
    pub config: AgentConfig,
    /// Where the configuration was read, which may change while the run goes on.
    pub config_path: PathBuf,
    pub facts: Facts,
    pub root: Root,
    pub log: Log,
    pub report_file: PathBuf,
    pub signals: Signals,
    pub budget: Budget,
    pub children: Children,
    pub progress: Progress,
    pub session: Session,
    /// Code that the run ends with, set before its last steps are done.
    pub exit_code: i32,
    /// Ids of the jobs that ran on this rank when its broker had to be ended.
    pub unfinished_jobs: Vec<String>,
}

impl Context {
    /// Says what has failed, in the log and in the status, and goes on.
    pub(crate) fn failed(&self, text: &str) {
        self.log.error(text);
        self.progress.failed(text);
    }

    /// The same for what need not be an error.
    pub(crate) fn warned(&self, text: &str) {
        self.log.warn(text);
        self.progress.failed(text);
    }

    /// uid and gid that a file of `owner` is given; `None` when it is ours as it is.
    pub(crate) fn ids(&self, owner: Owner) -> Option<(u32, u32)> {
        let user = self.session.identity.as_ref()?.user.as_ref()?;
        (owner == Owner::Broker).then_some((user.uid, user.gid))
    }
}
