//! Follows a run from its creation to its end.

use crate::commands::delete::begin_deletion;
use crate::commands::status::{state_condition, summary};
use crate::log_stream;
use crate::minicluster::{MiniClusterRef, checked, runner_state};
use crate::output::print_stderr;
use anyhow::{Context as _, Result, bail, ensure};
use flux_api::crd::{MiniCluster, State};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use std::future::ready;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;
use tokio::signal::ctrl_c;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long to wait for remaining output after the run has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// How a followed run has ended.
pub(super) enum End {
    /// The run has ended, or cannot begin.
    Run(Box<MiniCluster>),
    /// The user interrupted it, and its pods are gone.
    Interrupted,
    /// The user interrupted it twice, and it is still being deleted.
    InterruptedTwice,
}

/// The state of the run: a changing line on a terminal, otherwise one line for each message.
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
        progress.print("created");
        progress
    }

    fn print_state(&mut self, cluster: &MiniCluster) {
        if let (Some(state), Some(condition)) = (cluster.state(), state_condition(cluster)) {
            self.print(&format!("{state}: {}", condition.message));
        }
    }

    fn print(&mut self, text: &str) {
        let line = format!("{}: {text}", self.name);
        if line == self.last {
            return;
        }
        match &self.bar {
            Some(bar) => bar.set_message(line.clone()),
            None => print_stderr(&line),
        }
        self.last = line;
    }

    /// Removes the line before the output of the command.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Whether the run has ended or cannot begin.
fn is_over(cluster: &MiniCluster) -> bool {
    matches!(cluster.state(), Some(State::Complete | State::Failed | State::Invalid))
}

/// Prints the output of the lead until the run has ended.
pub(super) async fn follow(target: &MiniClusterRef, progress: &mut Progress) -> Result<End> {
    let mut clusters = pin!(target.changes());
    let mut leads = pin!(target.pod_changes(Some(0)));
    let mut log: Option<JoinHandle<Result<()>>> = None;
    let mut is_interrupted = false;
    // A new future in each round would miss an interrupt that arrives between two rounds.
    let mut interrupt = Box::pin(ctrl_c());
    loop {
        tokio::select! {
            Some(change) = clusters.next() => match checked(change)? {
                Some(Some(cluster)) if is_over(&cluster) => {
                    progress.clear();
                    finish(&mut log).await?;
                    return Ok(End::Run(Box::new(cluster)));
                }
                Some(Some(cluster)) => progress.print_state(&cluster),
                Some(None) if is_interrupted => {
                    finish(&mut log).await?;
                    return Ok(End::Interrupted);
                }
                Some(None) => bail!("somebody else deleted {}", target.name),
                None => {}
            },
            Some(change) = leads.next() => {
                let Some(pod) = checked(change)? else { continue };
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
                    return Ok(End::InterruptedTwice);
                }
                is_interrupted = true;
                progress.clear();
                let name = &target.name;
                print_stderr(&format!("Stopping {name}. Press Ctrl-C again to exit without waiting."));
                begin_deletion(target).await?;
            }
        }
    }
}

/// Waits for the end of the output.
async fn finish(log: &mut Option<JoinHandle<Result<()>>>) -> Result<()> {
    let Some(log) = log.take() else { return Ok(()) };
    match timeout(OUTPUT_TIMEOUT, log).await {
        Ok(copied) => copied.context("copy the log")?,
        Err(_) => Ok(()),
    }
}

/// Copies the log of the runner in this pod to the standard output, to its end.
async fn copy_log(target: MiniClusterRef, pod: String) -> Result<()> {
    let container = Some(target.name.clone());
    let parameters = LogParams { container, follow: true, ..LogParams::default() };
    let mut output = std::io::stdout();
    let print = move |line: log_stream::Line| {
        ready(output.write_all(&line.text).and_then(|()| output.flush()).is_ok())
    };
    log_stream::follow(target, pod, parameters, print).await
}

/// Waits until the instance is ready, and returns the lead's pod.
pub(super) async fn until_ready(target: &MiniClusterRef, progress: &mut Progress) -> Result<Pod> {
    let is_ready = |cluster: Option<MiniCluster>| {
        let cluster = cluster.with_context(|| format!("{} was deleted", target.name))?;
        progress.print_state(&cluster);
        ensure!(!is_over(&cluster), "{}", summary(&cluster));
        Ok((cluster.state() == Some(State::Running)).then_some(()))
    };
    target.until(is_ready).await?;
    target.running_pod(0).await
}
