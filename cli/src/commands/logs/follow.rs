//! Follows the logs of all pods of a MiniCluster until its run has ended.

use super::read::{Line, Log};
use crate::commands::status::summary;
use crate::commands::wait::{Goal, end};
use crate::log_stream::over_pods;
use crate::minicluster::{MiniClusterRef, has_log};
use anyhow::{Result, ensure};
use flux_api::crd::MiniCluster;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const WAITING_LINES: usize = 1000;

/// Prints the lines of all pods, also of later ones, until the MiniCluster has ended or is gone. `log_of` returns the log
/// of a pod, if it is wanted.
pub(super) async fn follow(
    target: &MiniClusterRef,
    log_of: impl Fn(&Pod) -> Result<Option<Log>>,
    print: impl Fn(&Line),
) -> Result<()> {
    let (sender, mut lines) = mpsc::channel(WAITING_LINES);
    let printing = async {
        while let Some(line) = lines.recv().await {
            print(&line);
        }
    };
    let reading = async move {
        // Each task returns whether it could read its log.
        let mut tasks = JoinSet::new();
        let start = |pod: &Pod| {
            let Some(log) = log_of(pod)? else { return Ok(true) };
            if !has_log(pod, log.parameters.container.as_deref().unwrap_or_default()) {
                return Ok(false);
            }
            let (target, lines) = (target.clone(), sender.clone());
            tasks.spawn(async move {
                let read = log.read(&target, lines).await;
                read.inspect_err(|error| log.print_error(error)).is_ok()
            });
            Ok(true)
        };
        // `run` deletes what it has made once that has ended.
        let has_ended = |cluster: Option<MiniCluster>| match cluster {
            None => Ok(Some(())),
            cluster => Ok(end(target, &Goal::End, cluster)?.map(drop)),
        };
        let ended = over_pods(target, None, target.until(has_ended), start).await;
        drop(sender);
        // Containers end after the run or, if they are deleted, before that is seen.
        let read = tasks.join_all().await;
        ended?.1.map(|()| read.contains(&true))
    };
    let (has_read, ()) = tokio::join!(reading, printing);
    ensure!(has_read?, "no log could be read; {}", summary(&target.get().await?));
    Ok(())
}
