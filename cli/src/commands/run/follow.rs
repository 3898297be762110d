//! Follows a run from its creation to its end.

use crate::commands::explain::{Explanation, explanation};
use crate::commands::logs::is_hidden;
use crate::commands::status::{summary, without_log_command};
use crate::error::line;
use crate::log_stream::{self, Ending, over_pods};
use crate::minicluster::has_log;
use crate::prelude::*;
use crate::progress::Progress;
use kube::api::LogParams;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::ready;
use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long to wait for the next line of the remaining output after the run has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look whether a run that does not begin is to be explained.
const LOOK: Duration = Duration::from_secs(1);

fn is_over(cluster: &MiniCluster) -> bool {
    matches!(cluster.state(), Some(State::Complete | State::Failed | State::Invalid))
}

/// Prints the output of the lead, and of the leads that replace it, until the run has ended; with `broker` also the lines
/// of its broker and agent. Returns the MiniCluster, unless that is gone, and why a part of the output is missing.
pub(super) async fn follow(
    target: &MiniClusterRef,
    broker: bool,
    progress: &mut Progress,
) -> Result<(Option<MiniCluster>, Option<String>)> {
    let progress = RefCell::new(progress);
    let ended = target.until(|cluster| match cluster {
        Some(cluster) if !is_over(&cluster) => {
            progress.borrow_mut().print_state(&cluster);
            Ok(None)
        }
        ended => Ok(Some(ended)),
    });
    let mut output = Output::start(target, broker);
    let copied = over_pods(target, Some(0), ended, |lead| {
        let has_log = has_log(lead, &target.name);
        if has_log {
            progress.borrow().finish();
            output.add(lead);
        }
        Ok(has_log)
    });
    let (cluster, listed) = tokio::select! {
        copied = copied => copied?,
        never = explain_waits(target, &progress) => match never {},
    };
    progress.into_inner().finish();
    Ok((cluster, output.finish(listed).await))
}

struct Output {
    leads: UnboundedSender<String>,
    is_empty: bool,
    copy: JoinHandle<Option<String>>,
    lines: Arc<AtomicUsize>,
}

impl Output {
    fn start(target: &MiniClusterRef, broker: bool) -> Self {
        let (leads, mut pods) = unbounded_channel();
        let lines = Arc::new(AtomicUsize::new(0));
        let (target, counted) = (target.clone(), Arc::clone(&lines));
        let copy = tokio::spawn(async move {
            let mut missing = None;
            while let Some(pod) = pods.recv().await {
                missing = missing.or(copy_log(&target, pod, broker, Arc::clone(&counted)).await);
            }
            missing
        });
        Self { leads, is_empty: true, copy, lines }
    }

    fn add(&mut self, lead: &Pod) {
        self.is_empty = false;
        // The task that receives it ends after this sender.
        let _ = self.leads.send(lead.name_any());
    }

    /// Waits for the end of the output, and returns why a part is missing. `listed` is the last list of leads.
    async fn finish(mut self, listed: Result<()>) -> Option<String> {
        if self.is_empty {
            let gone = |()| "the lead's pod is gone".to_owned();
            return Some(listed.map_or_else(|error| line(&error), gone));
        }
        drop(self.leads);
        loop {
            let before = self.lines.load(Ordering::Relaxed);
            match timeout(OUTPUT_TIMEOUT, &mut self.copy).await {
                Ok(Ok(missing)) => return missing,
                Ok(Err(error)) => return Some(error.to_string()),
                Err(_) if self.lines.load(Ordering::Relaxed) > before => {}
                Err(_) => {
                    self.copy.abort();
                    return Some(format!(
                        "the log has not ended, and had no new line for {} seconds",
                        OUTPUT_TIMEOUT.as_secs()
                    ));
                }
            }
        }
    }
}

/// Copies the log of the runner in this pod to the standard output. Returns the reason why a part is missing.
async fn copy_log(
    target: &MiniClusterRef,
    pod: String,
    broker: bool,
    lines: Arc<AtomicUsize>,
) -> Option<String> {
    let container = Some(target.name.clone());
    let parameters = LogParams { container, follow: true, ..LogParams::default() };
    let mut output = std::io::stdout();
    let mut failure = None;
    let print = |line: log_stream::Line| {
        lines.fetch_add(1, Ordering::Relaxed);
        if !broker && is_hidden(&String::from_utf8_lossy(&line.text)) {
            return ready(true);
        }
        let written = output.write_all(&line.text).and_then(|()| output.flush());
        failure = written.err();
        ready(failure.is_none())
    };
    let ending = log_stream::follow(target.clone(), pod.clone(), parameters, print).await;
    // A reader that has gone, such as `head`, has what it wanted.
    if let Some(error) = failure.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        return Some(format!("write to the standard output: {error}"));
    }
    match ending {
        Ok(Ending::Whole | Ending::Unwanted) => None,
        Ok(Ending::PodGone) => Some(format!("the pod {pod} is gone")),
        Err(error) => Some(line(&error)),
    }
}

pub(super) async fn until_ready(target: &MiniClusterRef, progress: &mut Progress) -> Result<Pod> {
    let progress = RefCell::new(progress);
    let is_ready = |cluster: Option<MiniCluster>| {
        let cluster = cluster.with_context(|| format!("{} was deleted", target.name))?;
        progress.borrow_mut().print_state(&cluster);
        let end = || without_log_command(&summary(&cluster), &target.name);
        ensure!(!is_over(&cluster), "{}", end());
        Ok((cluster.state() == Some(State::Running)).then_some(()))
    };
    tokio::select! {
        ready = target.until(is_ready) => ready?,
        never = explain_waits(target, &progress) => match never {},
    }
    target.running_pod(0).await
}

/// Prints cause and remedy, as `explain` has them, of each state before the command runs that lasts ten seconds.
async fn explain_waits(target: &MiniClusterRef, progress: &RefCell<&mut Progress>) -> Infallible {
    loop {
        sleep(LOOK).await;
        if !progress.borrow_mut().is_due() {
            continue;
        }
        // It is only help: another change brings another attempt.
        let Ok(found) = explanation(target).await.map(Explanation::without_pods) else { continue };
        progress.borrow_mut().print_advice(found.cause(), found.remedy());
    }
}
