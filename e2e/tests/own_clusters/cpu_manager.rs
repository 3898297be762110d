//! Pods to which a static CPU manager gives processors of their own. On a cluster of its own, for its kubelet.

use crate::prelude::*;
use e2e::kubernetes::Options;

/// Runs a MiniCluster of one pod with these resources. Returns how its tasks are bound, printed by `flux-agent
/// resources`, and the processors that `nproc` counts.
async fn bound(trial: &Trial, name: &str, resources: &str) -> Result<(String, String)> {
    let container = format!("resources: {{{resources}}}");
    let run = trial.run(name, "interactive: true", &container).await?;
    run.running(1).await?;
    let printed = run.exec(0, &["/mnt/flux/bin/flux-agent", "resources"]).await?;
    let tasks = printed.lines().find_map(|line| line.strip_prefix("tasks"));
    let tasks = tasks.with_context(|| printed.clone())?.trim().to_owned();
    let status = run.exec(0, &["grep", "Cpus_allowed_list", "/proc/1/status"]).await?;
    // A job can use these processors.
    run.flux(&["run", "-n1", "true"]).await?;
    run.delete().await?;
    Ok((tasks, status.split_whitespace().next_back().unwrap_or_default().to_owned()))
}

async fn binding(trial: &Trial) -> Result<()> {
    let limits = "limits: {cpu: '1', memory: 512Mi}";
    let (tasks, own) = bound(trial, "own", limits).await?;
    ensure!(tasks == "bound to own cores", "{tasks}");
    ensure!(own.parse::<u32>().is_ok(), "the container has the processors {own}");
    for (name, resources) in
        [("burstable", "limits: {cpu: '1'}"), ("part", "limits: {cpu: 500m, memory: 512Mi}")]
    {
        let (tasks, _) = bound(trial, name, resources).await?;
        ensure!(tasks == "not bound", "{name}: {tasks}");
    }
    Ok(())
}

#[test]
#[ignore = "needs root"]
fn tasks_are_bound_to_exclusive_processors_of_a_static_manager() {
    let options = Options { static_cpus: true, ..options("cpus", Network::default()) };
    on_a_cluster(&options, |environment| case(environment, "binding", binding));
}
