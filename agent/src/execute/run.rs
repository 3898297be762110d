//! A run of this pod: what the pod is, what the run has changed so far, and its way to files.

use crate::accounts::become_user::Target;
use crate::execute::session::Session;
use crate::failure::{Failure, Result, failed};
use crate::plan::facts::Facts;
use crate::plan::grace_period::GracePeriod;
use crate::plan::step::Owner;
use crate::process::children::Children;
use crate::process::signals::Signals;
use crate::status::progress::Progress;
use crate::system::files;
use crate::system::output::Log;
use crate::system::root::Root;
use flux_contract::{AgentConfig, Exit, Layout};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Each time that a call on files takes so long, the log has a line.
const SLOW: Duration = Duration::from_secs(10);

pub(crate) struct Run {
    pub config: AgentConfig,
    /// Where the configuration was read, which may change while the run goes on.
    pub config_path: PathBuf,
    pub facts: Facts,
    pub root: Root,
    pub log: Log,
    pub report_file: PathBuf,
    pub signals: Signals,
    pub grace: GracePeriod,
    pub children: Children,
    pub progress: Progress,
    pub session: Session,
    /// Code that the run ends with, set before its last steps are done.
    pub exit_code: i32,
}

impl Run {
    /// Reports an error in the log and in the status; the run goes on.
    pub(crate) fn failed(&self, text: &str) {
        self.log.error(text);
        self.progress.failed(text);
    }

    /// The same for a warning.
    pub(crate) fn warned(&self, text: &str) {
        self.log.warn(text);
        self.progress.failed(text);
    }

    /// Reports errors as [`Run::failed`] does, from a task of its own.
    pub(crate) fn failure_reporter(&self) -> impl Fn(&str) + Send + Sync + use<> {
        let (log, reporter) = (self.log, self.progress.failure_reporter());
        move |text| {
            log.error(text);
            reporter.publish(text);
        }
    }

    pub(crate) fn files(&self) -> Files {
        let (layout, session) = (self.config.layout.clone(), self.session.clone());
        Files { root: self.root.clone(), log: self.log, layout, session }
    }

    /// Does `work`, which may wait for a volume that does not answer, on a thread of its own: PID 1 has to take signals
    /// meanwhile. Once a stop has taken `share` the work is left alone.
    pub(crate) async fn off_thread<T: Send + 'static>(
        &mut self,
        doing: &str,
        share: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (mut work, log) = (spawn_blocking(work), self.log);
        let done = async {
            loop {
                if let Ok(done) = timeout(SLOW, &mut work).await {
                    return done;
                }
                log.warn(&format!("{doing}: still waiting; a volume may not answer"));
            }
        };
        match self.signals.within(share, done).await {
            Some(Ok(done)) => Ok(done),
            Some(Err(error)) => Err(Failure::because(Exit::Internal, doing, &error)),
            None => Err(self.signals.stopped_by().map_or_else(
                || Failure::new(Exit::Internal, format!("{doing}: left without a stop")),
                Into::into,
            )),
        }
    }

    /// Comes before a start: the kernel reports a working directory that is missing as a missing program.
    pub(crate) async fn check_working_directory(&mut self, share: Duration) -> Result<()> {
        if self.session.is_own_directory() {
            return Ok(());
        }
        let (doing, path) = ("enter the working directory", self.session.working_directory.clone());
        let enter = move || fs::metadata(path.join(".")).map(drop).map_err(failed(doing, &path));
        self.off_thread(doing, share, enter).await?
    }
}

/// The files of a pod, as its session stands: a copy, for another thread.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub root: Root,
    pub log: Log,
    pub layout: Layout,
    pub session: Session,
}

impl Files {
    /// The user of the broker, if that is another one than the agent's.
    pub(crate) fn user(&self) -> Option<&Target> {
        self.session.identity.as_ref()?.user.as_ref()
    }

    /// uid and gid that a file of `owner` is given; `None` when it is ours as it is.
    pub(crate) fn ids(&self, owner: Owner) -> Option<(u32, u32)> {
        let user = self.user()?;
        (owner == Owner::Broker).then_some((user.uid, user.gid))
    }

    pub(crate) fn write(&self, path: &Path, bytes: &[u8], mode: u32, owner: Owner) -> Result<()> {
        let written = files::write(&self.root.at(path), bytes, mode, self.ids(owner));
        written.map_err(failed("write", path))
    }
}
