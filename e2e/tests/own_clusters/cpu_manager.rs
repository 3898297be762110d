//! Pods to which a static CPU manager gives processors of their own. On a cluster of its own, for its kubelet.

use crate::prelude::*;
use e2e::examples::run::run;
use e2e::kubernetes::Options;

const EXAMPLE: &str = include_str!("../../../examples/exclusive-cores/minicluster.yaml");

/// Waits until a MiniCluster of one pod runs, and deletes it. Returns how its tasks are bound, printed by `flux-agent
/// resources`, and the processors that the container may use.
async fn bound(run: &Instance<'_>) -> Result<(String, String)> {
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
    // A node of two processors has one for pods, and one for itself.
    ensure!(EXAMPLE.contains("size: 2\n"), "the example has another size");
    trial.apply(&EXAMPLE.replace("size: 2\n", "size: 1\n")).await?;
    let (tasks, own) = bound(&trial.named("exclusive-cores")).await?;
    ensure!(tasks == "bound to own cores", "{tasks}");
    ensure!(own.parse::<u32>().is_ok(), "the container has the processors {own}");
    for (name, resources) in
        [("burstable", "limits: {cpu: '1'}"), ("part", "limits: {cpu: 500m, memory: 512Mi}")]
    {
        let container = format!("resources: {{{resources}}}");
        let run = trial.run(name, "interactive: true", &container).await?;
        let (tasks, _) = bound(&run).await?;
        ensure!(tasks == "not bound", "{name}: {tasks}");
    }
    Ok(())
}

/// The example, on a node that has a processor for each of its two pods and one for itself.
fn example(environment: &Environment) -> Result<()> {
    let processors = ["get", "nodes", "--output=jsonpath={.items[0].status.capacity.cpu}"];
    if environment.kubectl(&processors)?.parse::<u32>()? < 3 {
        notes::not_run("example exclusive-cores", "it needs a node of three processors");
        return Ok(());
    }
    run("exclusive-cores", None, environment)
}

#[test]
#[ignore = "needs root"]
fn tasks_are_bound_to_exclusive_processors_of_a_static_manager() {
    let options = Options { static_cpus: true, ..options("cpus", Network::default()) };
    on_a_cluster(&options, |environment| {
        case(environment, "binding", binding)?;
        example(environment)
    });
}
