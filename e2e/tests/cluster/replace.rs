//! Who is replaced, and who fails: pods that are lost, and commands that fail.

use crate::faults::end_of;
use crate::{DEADLINE, apply, await_status, complete, exec, lead_log, ready_lead, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    trial::{
        Trial, condition,
        logs::{container_log, times_logged},
    },
    wait,
};
use flux_operator::crd::State;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, EvictParams},
    runtime::wait::await_condition,
};
use std::time::Duration;

/// What a pod of an instance is lost by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    Deletion,
    Eviction,
    /// The kernel kills its agent when it has no memory left. A node with version 1 of control groups kills one
    /// process then, so that the agent must be the one that it likes best to kill.
    Memory,
}

/// How long an instance may lack a worker that was lost: the Job controller pauses for ten seconds.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(30);

/// What a container needs so that it can be lost by [`Loss::Memory`]. The more memory it asks for, the less the
/// kernel likes to kill its other processes, of which the broker is a large one.
const MEMORY_TO_FILL: &str = "resources: {limits: {memory: 1Gi}}, \
                              volumes: {memory: {emptyDir: true, emptyDirMedium: memory}}";

/// Takes the pod of `index` away.
pub(crate) async fn lose(trial: &Trial, name: &str, index: u32, loss: Loss) -> Result<()> {
    let pods = trial.api::<Pod>();
    let pod = trial.pod(name, index).await?.context("no such pod")?.name_any();
    match loss {
        Loss::Deletion => drop(pods.delete(&pod, &DeleteParams::default()).await?),
        Loss::Eviction => drop(pods.evict(&pod, &EvictParams::default()).await?),
        Loss::Memory => {
            let fill = "echo 1000 > /proc/1/oom_score_adj; cat /dev/zero > /dev/shm/full";
            // It may end with the container: what becomes of it tells nothing.
            drop(exec(trial, &pod, name, &["sh", "-c", fill]));
        }
    }
    let over = |pod: Option<&Pod>| {
        let phase = pod.map(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()));
        phase.is_none_or(|phase| phase == Some("Failed"))
    };
    let over = await_condition(pods, &pod, over);
    tokio::time::timeout(DEADLINE, over).await.with_context(|| format!("losing {pod}"))??;
    Ok(())
}

/// Brokers that Flux has for jobs: of an instance without any, those that are up.
fn up(trial: &Trial, lead: &str, name: &str) -> Result<String> {
    let list = ["/mnt/flux/bin/flux", "resource", "list", "--states=free", "-no", "{nnodes}"];
    Ok(exec(trial, lead, name, &list)?.trim().to_owned())
}

/// Waits until Flux counts so many brokers as up.
pub(crate) async fn await_up(
    trial: &Trial,
    name: &str,
    wanted: &str,
    within: Duration,
) -> Result<()> {
    let mut seen = String::new();
    let found = wait::until_found("the brokers", within, async || {
        let lead = trial.pod(name, 0).await?.context("no lead")?.name_any();
        // While a lead starts there is nobody to ask.
        let counted = up(trial, &lead, name);
        seen = format!("{counted:?}");
        Ok(counted.is_ok_and(|counted| counted == wanted).then_some(()))
    });
    found
        .await
        .with_context(|| format!("{wanted} brokers of {name} are to be up, seen were {seen}"))
}

/// Loses a worker of an instance of four in each way, and waits until it is back.
async fn lose_each(trial: &Trial, name: &str) -> Result<()> {
    for (index, loss) in (1..).zip([Loss::Deletion, Loss::Eviction, Loss::Memory]) {
        let before = trial.pod(name, index).await?.context("no worker")?;
        lose(trial, name, index, loss).await?;
        let again = async {
            wait::until_found("another worker", BACK_WITHIN, async || {
                Ok(trial.pod(name, index).await?.filter(|pod| pod.uid() != before.uid()))
            })
            .await?;
            await_up(trial, name, "4", BACK_WITHIN).await
        };
        let again = tokio::time::timeout(BACK_WITHIN, again).await;
        again.with_context(|| format!("{loss:?}: it did not come back"))??;
        if let Loss::Memory = loss {
            let lost: Pod = trial.api().get(&before.name_any()).await?;
            let end = end_of(&lost, name).and_then(|end| end.reason.clone());
            ensure!(end.as_deref() == Some("OOMKilled"), "{} ended by {end:?}", lost.name_any());
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_that_is_lost_comes_back_into_an_instance_that_goes_on() {
    trial("lost-worker", &[], async |trial| {
        let spec = format!(
            "{{size: 4, interactive: true, containers: [{{image: 'ubuntu:24.04', {MEMORY_TO_FILL}}}]}}"
        );
        let name = apply(trial, "lost-worker", &spec).await?;
        let lead = ready_lead(trial, &name).await?;
        await_up(trial, &name, "4", DEADLINE).await?;
        lose_each(trial, &name).await?;
        let is_back = |status: &flux_operator::crd::MiniClusterStatus| {
            status.state == Some(State::Running) && status.ready_brokers == 4
        };
        await_status(trial, &name, "running with four brokers", is_back).await?;
        ensure!(ready_lead(trial, &name).await? == lead, "the lead is another one");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_worker_that_is_lost_comes_back_while_the_command_runs() {
    trial("lost-helper", &[], async |trial| {
        let command = "echo begun; until test -e /tmp/go; do sleep 0.2; done; \
                       flux run -N4 hostname; echo done";
        let spec = format!(
            "{{size: 4, containers: [{{image: 'ubuntu:24.04', launcher: true, command: '{command}', \
             {MEMORY_TO_FILL}}}]}}"
        );
        let name = apply(trial, "lost-helper", &spec).await?;
        let lead = ready_lead(trial, &name).await?;
        await_up(trial, &name, "4", DEADLINE).await?;
        lose_each(trial, &name).await?;
        exec(trial, &lead, &name, &["touch", "/tmp/go"])?;
        complete(trial, &name).await?;
        let log = lead_log(trial, &name).await?;
        let hosts = (0..4).map(|index| format!("lost-helper-{index}"));
        for line in hosts.chain(["begun", "done"].map(str::to_owned)) {
            let times = log.lines().filter(|it| it.trim() == line).count();
            ensure!(times == 1, "{line} stands {times} times in the log:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_is_lost_comes_back_where_people_end_the_run() {
    trial("lost-lead", &[], async |trial| {
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";
        let name = apply(trial, "lost-lead", spec).await?;
        let lead = ready_lead(trial, &name).await?;
        lose(trial, &name, 0, Loss::Deletion).await?;
        let away =
            |status: &flux_operator::crd::MiniClusterStatus| status.state != Some(State::Running);
        await_status(trial, &name, "without a lead", away).await?;
        ensure!(ready_lead(trial, &name).await? != lead, "the lead is the same");
        await_up(trial, &name, "2", DEADLINE).await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_whose_lead_is_lost_is_not_run_again() {
    trial("lost-command", &[], async |trial| {
        let spec =
            "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'echo once; sleep 600'}]}";
        let name = apply(trial, "lost-command", spec).await?;
        ready_lead(trial, &name).await?;
        lose(trial, &name, 0, Loss::Deletion).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        let (status, reason, message) = condition(&cluster, "Failed").context("no condition")?;
        ensure!(status == "True", "{reason}: {message}");
        for pod in trial.pods(&name).await? {
            let log = container_log(trial, &pod, &name).await.unwrap_or_default();
            ensure!(!log.lines().any(|line| line == "once"), "{} ran it: {log}", pod.name_any());
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fails_is_run_once_whatever_its_code_is() {
    trial("codes", &[], async |trial| {
        let codes = [2, 7, 75, 137, 143];
        for code in codes {
            let spec = format!(
                "{{size: 1, containers: [{{image: 'ubuntu:24.04', command: 'echo once; exit {code}'}}]}}"
            );
            apply(trial, &format!("code-{code}"), &spec).await?;
        }
        for code in codes {
            let name = format!("code-{code}");
            let cluster = trial.await_finished(&name, DEADLINE).await?;
            let (_, reason, message) = condition(&cluster, "Failed").context("no condition")?;
            ensure!(reason == "CommandFailed", "{name}: {reason}: {message}");
            let told = cluster.status.as_ref().and_then(|status| status.exit_code);
            ensure!(told == Some(code), "{name}: {told:?}: {message}");
            let times = times_logged(trial, &name, "once").await?;
            ensure!(times == 1, "{name} ran {times} times");
        }
        Ok(())
    });
}
