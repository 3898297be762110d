//! A MiniCluster of many pods on one node, which loses pods and changes its size while jobs are submitted all along.

use crate::prelude::*;
use std::collections::BTreeSet;
use std::sync::Mutex;

const SIZE: i32 = 64;
const SMALL: i32 = 8;
/// Time between two submissions.
const PAUSE: Duration = Duration::from_millis(500);

#[test]
#[ignore = "needs root"]
fn a_large_instance_keeps_every_job_over_losses_and_sizes() {
    let options = options("large", Network::default());
    on_a_cluster(&options, |environment| {
        case(environment, "large", async |trial| {
            let restart = || {
                let cluster = trial.own()?;
                cluster.end_program("kubelet")?;
                cluster.start_program(&options, "kubelet")
            };
            Box::pin(jobs_outlive_pods(trial, restart)).await
        })
    });
}

async fn jobs_outlive_pods(trial: &Trial, restart_kubelet: impl Fn() -> Result<()>) -> Result<()> {
    // A directory of the node outlives the pods.
    let directory = format!("/var/tmp/{}", trial.namespace());
    let fields = format!(
        "size: {SIZE}, interactive: true, archive: {{path: /state/large.tgz}}, flux: {{drainSeconds: 20}}"
    );
    let container = format!(
        "resources: {{requests: {{cpu: 10m}}}}, commands: {{runFluxAsRoot: true}}, \
         volumes: {{state: {{path: /state, hostPath: {directory}}}}}"
    );
    let run = trial.run("large", &fields, &container).await?;
    run.ready_with(SIZE.cast_unsigned()).await?;
    let accepted = Mutex::new(BTreeSet::new());
    tokio::select! {
        faults = faults(&run, restart_kubelet) => faults?,
        never = submit(&run, &accepted) => never,
    }
    run.up(SIZE.cast_unsigned()).await?;
    let accepted = accepted.into_inner().unwrap();
    progress::log(&format!("{} jobs were accepted", accepted.len()));
    each_has_its_end(&run, &accepted).await?;
    let drained = run.drained().await?;
    ensure!(drained.is_empty(), "still drained: {drained}");
    let status = run.brokers(SIZE).await?;
    ensure!(is_true(&status, "Ready") && !is_true(&status, "Degraded"), "{:?}", status.status);
    Ok(())
}

/// Half of the workers, the kubelet, and the lead go in turn; then most workers leave, and come back.
async fn faults(run: &Instance<'_>, restart_kubelet: impl Fn() -> Result<()>) -> Result<()> {
    let lead = run.pod(0).await?;
    let mut lost = Vec::new();
    for index in (1..SIZE.cast_unsigned()).step_by(2) {
        lost.push(run.pod(index).await?);
    }
    let names: Vec<String> = lost.iter().map(ResourceExt::name_any).collect();
    let pods: Vec<&str> = names.iter().map(String::as_str).collect();
    run.kubectl(&[&["delete", "pod", "--grace-period=0", "--force"], &pods[..]].concat())?;
    for (index, before) in (1..).step_by(2).zip(&lost) {
        run.another(index, before).await?;
    }
    progress::log(&format!("{} workers were killed and have others in their place", lost.len()));
    run.brokers(SIZE).await?;
    restart_kubelet()?;
    run.brokers(SIZE).await?;
    ensure!(run.ready().await? == lead.name_any(), "the lead is another one");
    progress::log("the kubelet was restarted");
    run.delete_pod(0).await?;
    run.another(0, &lead).await?;
    run.brokers(SIZE).await?;
    progress::log("the lead was deleted, and another one has all brokers");
    for size in [SMALL, SIZE] {
        run.edit(&json!({ "size": size }))?;
        run.brokers(size).await?;
        progress::log(&format!("the size is {size}"));
    }
    Ok(())
}

/// Submits short jobs without an end, and records the ids of those that Flux accepted. While the lead is away there are
/// none.
async fn submit(run: &Instance<'_>, accepted: &Mutex<BTreeSet<String>>) -> ! {
    loop {
        if let Ok(id) = run.flux(&["submit", "sleep", "1"]).await {
            accepted.lock().unwrap().insert(id);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until no job is left to run; each of `accepted` then has an end, and no job failed but by the loss of its pod.
async fn each_has_its_end(run: &Instance<'_>, accepted: &BTreeSet<String>) -> Result<()> {
    run.flux(&["queue", "idle"]).await?;
    let listed = run.flux(&["jobs", "-a", "-no", "{id} {status}"]).await?;
    let ends: Vec<_> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
    let known: BTreeSet<_> = ends.iter().map(|(id, _)| (*id).to_owned()).collect();
    let lost: Vec<_> = accepted.difference(&known).collect();
    ensure!(lost.is_empty(), "{} of {} jobs are unknown: {lost:?}", lost.len(), accepted.len());
    let of = |status| ends.iter().filter(|(_, found)| *found == status).count();
    let (completed, failed, cancelled) = (of("COMPLETED"), of("FAILED"), of("CANCELED"));
    progress::log(&format!("{completed} completed, {failed} failed, {cancelled} cancelled"));
    ensure!(completed + failed + cancelled == ends.len(), "{listed}");
    ensure!(completed > failed + cancelled, "{listed}");
    Ok(())
}
