//! A run from its creation to its end: what it waits for, what it prints, how it ends.

use crate::commands::delete::begin_deletion;
use crate::commands::status::{says, summary};
use crate::connection::watch_config;
use crate::log;
use crate::output::complain;
use crate::target::{Target, checked, runner_state};
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::crd::{MiniCluster, State};
use futures::{Stream, StreamExt as _};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use std::future::ready;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the rest of the output may take after the run has ended.
const REST: Duration = Duration::from_secs(10);
/// Time between two pictures of the line that moves.
const TICK: Duration = Duration::from_millis(120);

/// How the following of a run has ended.
pub(super) enum End {
    /// The run has ended, or cannot begin.
    Run(Box<MiniCluster>),
    /// It was interrupted, and its pods have gone.
    Interrupted,
    /// It was interrupted twice, and is still being deleted.
    Left,
}

/// What is waited for, in one line: on a terminal it changes, elsewhere there is a line for each reason.
pub(super) struct Progress {
    name: String,
    bar: Option<ProgressBar>,
    last: String,
}

impl Progress {
    pub(super) fn new(name: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
            bar.set_style(ProgressStyle::default_spinner());
            bar.enable_steady_tick(TICK);
            bar
        });
        let mut progress = Self { name: name.to_owned(), bar, last: String::new() };
        progress.say("created");
        progress
    }

    fn show(&mut self, cluster: &MiniCluster) {
        let state = cluster.status.as_ref().and_then(|status| status.state);
        if let (Some(state), Some(says)) = (state, says(cluster)) {
            self.say(&format!("{state}: {}", says.message));
        }
    }

    fn say(&mut self, text: &str) {
        let line = format!("{}: {text}", self.name);
        if line == self.last {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(line.clone()),
            None => complain(&line),
        }
        self.last = line;
    }

    /// The output of the command follows.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The pods of the lead, whenever one changes.
fn leads(target: &Target) -> impl Stream<Item = watcher::Result<Pod>> + use<> {
    let index = flux_contract::labels::COMPLETION_INDEX;
    let selector = format!("{},{index}=0", target.selector());
    let configuration = watch_config().labels(&selector);
    watcher(target.connection.api(), configuration).default_backoff().applied_objects()
}

/// Whether this is the end, or a beginning that will not come.
fn is_over(cluster: &MiniCluster) -> bool {
    let state = cluster.status.as_ref().and_then(|status| status.state);
    matches!(state, Some(State::Complete | State::Failed | State::Invalid))
}

/// Prints what the lead prints until the run has ended.
pub(super) async fn follow(target: &Target, progress: &mut Progress) -> Result<End> {
    let mut clusters = pin!(target.changes());
    let mut leads = pin!(leads(target));
    let mut log: Option<JoinHandle<Result<()>>> = None;
    let mut is_interrupted = false;
    // One that is made anew in each round would not see an interrupt that comes while this does something else.
    let mut interrupt = Box::pin(ctrl_c());
    loop {
        tokio::select! {
            Some(seen) = clusters.next() => match checked(seen)? {
                Some(Some(cluster)) if is_over(&cluster) => {
                    progress.clear();
                    rest(&mut log).await?;
                    return Ok(End::Run(Box::new(cluster)));
                }
                Some(Some(cluster)) => progress.show(&cluster),
                Some(None) if is_interrupted => {
                    rest(&mut log).await?;
                    return Ok(End::Interrupted);
                }
                Some(None) => bail!("{} was deleted by somebody else", target.name),
                None => {}
            },
            Some(seen) = leads.next() => {
                let Some(pod) = checked(seen)? else { continue };
                let has_log = runner_state(&pod, &target.name).is_some_and(|it| it.waiting.is_none());
                if has_log && log.is_none() {
                    progress.clear();
                    log = Some(tokio::spawn(copy_log(target.clone(), pod.name_any())));
                }
            }
            pressed = &mut interrupt => {
                pressed.context("wait for an interrupt")?;
                interrupt.set(ctrl_c());
                if is_interrupted {
                    return Ok(End::Left);
                }
                is_interrupted = true;
                progress.clear();
                complain(&format!("{} is ended, interrupt again to leave it alone with that", target.name));
                begin_deletion(target).await?;
            }
        }
    }
}

/// Waits for the end of the output.
async fn rest(log: &mut Option<JoinHandle<Result<()>>>) -> Result<()> {
    let Some(log) = log.take() else { return Ok(()) };
    match timeout(REST, log).await {
        Ok(copied) => copied.context("copy the log")?,
        Err(_) => Ok(()),
    }
}

/// Copies the log of the runner in this pod to the standard output, to its end.
async fn copy_log(target: Target, pod: String) -> Result<()> {
    let parameters = LogParams { container: Some(target.name.clone()), ..LogParams::default() };
    let mut output = std::io::stdout();
    let print = move |line: log::Line| {
        ready(output.write_all(&line.text).and_then(|()| output.flush()).is_ok())
    };
    log::follow(target, pod, parameters, print).await
}

/// The lead's pod when the instance is ready.
pub(super) async fn until_ready(target: &Target, progress: &mut Progress) -> Result<Pod> {
    let is_ready = |seen: Option<MiniCluster>| {
        let cluster = seen.with_context(|| format!("{} was deleted", target.name))?;
        progress.show(&cluster);
        ensure!(!is_over(&cluster), "{}", summary(&cluster));
        let state = cluster.status.and_then(|status| status.state);
        Ok((state == Some(State::Running)).then_some(()))
    };
    target.until(is_ready).await?;
    target.running_pod(0).await
}
