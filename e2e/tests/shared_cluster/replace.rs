//! Lost pods: which are replaced, and which fail the run.

use crate::prelude::*;
use kube::api::EvictParams;

/// How a pod of an instance is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    Deletion,
    Eviction,
    /// The kernel kills its agent for lack of memory. With version 1 of control groups it kills one process only, so the
    /// agent must have the highest score of all.
    Memory,
}

/// How long an instance may lack a lost worker: the Job controller pauses for ten seconds.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// The fields of a container for [`Loss::Memory`]. The more memory it requests, the lower is the kernel's score of its
/// other processes, such as the broker.
const MEMORY_TO_FILL: &str = "resources: {limits: {memory: 1Gi}}, \
                              volumes: {memory: {emptyDir: true, emptyDirMedium: memory}}";

/// Ends the pod of `index`, and returns it as it was.
pub(crate) async fn lose(trial: &Trial, run: &Instance<'_>, index: u32, loss: Loss) -> Result<Pod> {
    let before = run.pod(index).await?;
    let pod = before.name_any();
    let mut over = "--for=delete";
    match loss {
        Loss::Deletion => drop(run.delete_pod(index).await?),
        Loss::Eviction => drop(trial.api::<Pod>().evict(&pod, &EvictParams::default()).await?),
        Loss::Memory => {
            let fill = "echo 1000 > /proc/1/oom_score_adj; cat /dev/zero > /dev/shm/full";
            // The container may end during this call, so its result does not count.
            drop(run.exec_in(&pod, run.name, &["sh", "-c", fill]));
            over = "--for=jsonpath={.status.phase}=Failed";
        }
    }
    run.kubectl(&["wait", "pod", &pod, over, "--timeout=3m"])?;
    Ok(before)
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_lost_while_the_command_runs_comes_back() {
    trial("lost-worker", async |trial| {
        let container = format!("{}, {MEMORY_TO_FILL}", then_on(4));
        let run = trial.run("lost", "size: 4", &container).await?;
        let lead = run.ready_with(4).await?;
        for (index, loss) in (1..).zip([Loss::Deletion, Loss::Eviction, Loss::Memory]) {
            let before = lose(trial, &run, index, loss).await?;
            let back = async {
                run.another(index, &before).await?;
                run.up_within(4, BACK_WITHIN).await
            };
            let back = tokio::time::timeout(BACK_WITHIN, back).await;
            back.with_context(|| format!("it is not back after {loss:?}"))??;
            if let Loss::Memory = loss {
                let lost: Pod = trial.api().get(&before.name_any()).await?;
                let end = end_of(&lost, run.name).and_then(|end| end.reason.clone());
                ensure!(end.as_deref() == Some("OOMKilled"), "it ended by {end:?}");
            }
        }
        run.running(4).await?;
        ensure!(run.ready().await? == lead, "the lead is another one");
        run.ends_on(4).await
    });
}

/// In a chain, the brokers below the one that goes end with it, and their agents start them again.
#[test]
#[ignore = "needs a cluster"]
fn a_middle_broker_comes_back_with_those_below_it() {
    let what = "the loss of a broker with others below it";
    with_real_flux("middle", what, "the stand-in for Flux has no trees", async |trial| {
        let spec = "size: 5, interactive: true, flux: {topology: 'kary:1'}";
        let run = trial.run("chain", spec, "").await?;
        run.ready_with(5).await?;
        let on_rank =
            |rank: &str| format!("/mnt/flux/bin/flux submit --requires=rank:{rank} sleep 600");
        run.exec(0, &["sh", "-c", &on_rank("1")]).await?;
        for loss in [Loss::Deletion, Loss::Eviction] {
            let before = lose(trial, &run, 2, loss).await?;
            run.another(2, &before).await?;
            run.up_within(5, BACK_WITHIN).await?;
        }
        for index in [3, 4] {
            let status = run.agent_status(index).await?;
            ensure!(status["restarts"].as_u64().is_some_and(|it| it <= 2), "{index}: {status}");
        }
        let running =
            run.exec(0, &["/mnt/flux/bin/flux", "jobs", "-no", "{ranks} {state}"]).await?;
        ensure!(running.trim() == "1 RUN", "the job of rank 1: {running}");
        Ok(())
    });
}

/// The kernel kills the largest process of a container that exceeds its memory, or, with version 2 of control
/// groups, all of them: in the first case the job fails and the pod stays, in the other one the pod is replaced.
#[test]
#[ignore = "needs a cluster"]
fn a_worker_killed_for_its_memory_is_used_again() {
    trial("memory-out", async |trial| {
        let job = r#"flux run -N2 -n2 sh -c "test \$FLUX_TASK_RANK = 0 || tail /dev/zero""#;
        let container = format!(
            "launcher: true, resources: {{limits: {{memory: 256Mi}}}}, \
             command: 'echo begun; {job}; echo it ended with $?; \
             until test -e /tmp/go; do sleep 0.2; done; flux run -N2 -n2 hostname; echo done'"
        );
        let run = trial.run("greedy", "size: 2", &container).await?;
        let before = run.printed(1, "starting the broker").await?;
        run.printed(0, "it ended with ").await?;
        run.up_within(2, BACK_WITHIN * 2).await?;
        let after = run.pod(1).await?;
        run.ends_on(2).await?;
        if after.uid() == before.uid() {
            return run.each_once(&["it ended with 137"]).await;
        }
        let before: Pod = trial.api().get(&before.name_any()).await?;
        let reason = end_of(&before, run.name).and_then(|end| end.reason.clone());
        ensure!(reason.as_deref() == Some("OOMKilled"), "the first worker: {reason:?}");
        ensure!(run.times("it ended with 0").await? == 0, "the job ended well");
        Ok(())
    });
}

/// The lead of an interactive run comes back, because a person ends the run; a command is not run again.
#[test]
#[ignore = "needs a cluster"]
fn a_lost_lead_comes_back_in_interactive_runs_only() {
    trial("lost-lead", async |trial| {
        let people = trial.run("people", "size: 2, interactive: true", "").await?;
        let once = trial.run("command", "size: 2", "command: 'echo once; sleep 600'").await?;
        let lead = people.ready().await?;
        once.ready().await?;
        lose(trial, &people, 0, Loss::Deletion).await?;
        let away = |status: &MiniClusterStatus| status.state != Some(State::Running);
        people.status("without a lead", away).await?;
        lose(trial, &once, 0, Loss::Deletion).await?;
        ensure!(people.ready().await? != lead, "the lead is the same");
        people.up(2).await?;
        let cluster = once.finished().await?;
        ensure!(is_true(&cluster, "Failed"), "{:?}", cluster.status);
        ensure!(once.times("once").await? == 0, "another pod ran it");
        Ok(())
    });
}
