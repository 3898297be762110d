//! Follows the logs of all pods of a MiniCluster until its run has ended.

use super::read::{Line, Log};
use crate::commands::status::summary;
use crate::commands::wait::{Goal, end};
use crate::minicluster::{MiniClusterRef, has_log};
use anyhow::{Result, ensure};
use flux_api::crd::MiniCluster;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use std::collections::HashSet;
use std::pin::pin;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lines that wait to be printed.
const WAITING_LINES: usize = 1000;

/// Returns the log of a pod, if it is wanted.
pub(super) type LogOf<'logs> = &'logs dyn Fn(&Pod) -> Result<Option<Log>>;

/// Prints the lines of all pods, also of later ones, until the MiniCluster has ended or is gone.
pub(super) async fn follow(
    target: &MiniClusterRef,
    log_of: LogOf<'_>,
    print: impl Fn(&Line),
) -> Result<()> {
    let (sender, mut lines) = mpsc::channel(WAITING_LINES);
    let printing = async {
        while let Some(line) = lines.recv().await {
            print(&line);
        }
    };
    let reading = async {
        let (followed, tasks) = (HashSet::new(), JoinSet::new());
        let mut readers = Readers { log_of, target, lines: sender, followed, tasks };
        let ended = readers.until_end().await;
        // Containers end after the run or, if they are deleted, before that is seen.
        let read = readers.tasks.join_all().await;
        ended.map(|()| read.contains(&true))
    };
    let (has_read, ()) = tokio::join!(reading, printing);
    ensure!(has_read?, "no log could be read; {}", summary(&target.get().await?));
    Ok(())
}

/// The tasks that follow logs.
struct Readers<'logs> {
    log_of: LogOf<'logs>,
    target: &'logs MiniClusterRef,
    lines: mpsc::Sender<Line>,
    /// The names of the pods whose logs are followed.
    followed: HashSet<String>,
    /// Each returns whether it could read its log.
    tasks: JoinSet<bool>,
}

impl Readers<'_> {
    /// Starts a task for each pod until the MiniCluster has ended.
    async fn until_end(&mut self) -> Result<()> {
        self.start_all().await?;
        let mut pods = pin!(self.target.pod_changes(None));
        let target = self.target;
        // `run` deletes what it has made once that has ended.
        let has_ended = |cluster: Option<MiniCluster>| match cluster {
            None => Ok(Some(())),
            cluster => Ok(end(target, &Goal::End, cluster)?.map(drop)),
        };
        let mut ended = pin!(target.until(has_ended));
        loop {
            tokio::select! {
                // The watcher retries. If the error persists, the watch of the MiniCluster returns it.
                Some(pod) = pods.next() => pod.map_or(Ok(()), |pod| self.start(&pod))?,
                end = &mut ended => break end?,
            }
        }
        // The watch of the MiniCluster may be ahead of that of its pods.
        self.start_all().await
    }

    async fn start_all(&mut self) -> Result<()> {
        self.target.pod_list().await?.iter().try_for_each(|pod| self.start(pod))
    }

    /// Follows the log of this pod, once it has one.
    fn start(&mut self, pod: &Pod) -> Result<()> {
        let Some(log) = (self.log_of)(pod)? else { return Ok(()) };
        let container = log.parameters.container.as_deref().unwrap_or_default();
        if has_log(pod, container) && self.followed.insert(pod.name_any()) {
            let (target, lines) = (self.target.clone(), self.lines.clone());
            self.tasks.spawn(async move {
                let read = log.read(&target, lines).await;
                read.inspect_err(|error| log.print_error(error)).is_ok()
            });
        }
        Ok(())
    }
}
