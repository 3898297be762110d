//! A node is lost, its kubelet and all of its pods at once, or its disk is full.

use super::{
    FIRST, GIVEN_UP_SOON, OUT_OF_SERVICE, SECOND, apart, await_given_up, await_second, node_of,
    nodes,
};
use crate::prelude::*;
use e2e::trial::checkpoint::ARCHIVE;

/// Until the node is back Kubernetes cannot know whether its pods have ended, so nothing replaces them.
pub(super) async fn workers_of_a_lost_node_come_back_with_it(trial: &Trial) -> Result<()> {
    let fields = format!("interactive: true, {GIVEN_UP_SOON}");
    let people = apart(trial, "people", &fields, "", FIRST).await?;
    let command = apart(trial, "command", GIVEN_UP_SOON, &then_on(2), FIRST).await?;
    let first_lead = people.ready().await?;
    let before = [people.pod(1).await?, command.pod(1).await?];
    trial.own()?.lose_node(SECOND)?;
    await_second(trial, "Unknown")?;
    for (run, worker) in [&people, &command].into_iter().zip(&before) {
        run.up(1).await?;
        await_given_up(run, worker)?;
    }
    trial.own()?.start_node(&nodes(), SECOND)?;
    for (run, worker) in [&people, &command].into_iter().zip(&before) {
        run.another(1, worker).await?;
        run.up(2).await?;
    }
    people.running(2).await?;
    ensure!(people.ready().await? == first_lead, "the lead is another one");
    command.ends_on(2).await
}

/// Two MiniClusters with a pod on the second node each: the lead of `once`, whose command prints that and goes on, and
/// the worker of `people`, which is interactive.
struct Halves<'run> {
    trial: &'run Trial,
    once: Instance<'run>,
    people: Instance<'run>,
    lead: Pod,
    worker: Pod,
}

impl<'run> Halves<'run> {
    async fn on_second(trial: &'run Trial) -> Result<Self> {
        let command = "command: 'echo once; sleep 600'";
        let once = apart(trial, "once", "", command, SECOND).await?;
        let people = apart(trial, "people", "interactive: true", "", FIRST).await?;
        let (lead, worker) = (once.pod(0).await?, people.pod(1).await?);
        Ok(Self { trial, once, people, lead, worker })
    }

    /// Waits for the consequences of the loss: `people` gets another worker on the first node; `once` ends for `reason`,
    /// and its command is not run again. Returns the message of that end.
    async fn await_elsewhere(&self, reason: &str) -> Result<String> {
        let again = self.people.another(1, &self.worker).await?;
        ensure!(node_of(&again) == FIRST, "the worker is on {}", node_of(&again));
        self.people.up(2).await?;
        self.people.running(2).await?;
        let (_, message) = self.once.fails(reason).await?;
        for pod in self.trial.pods("once").await? {
            let log = container_log(self.trial, &pod, "once").await.unwrap_or_default();
            let ran = log.lines().any(|line| line.trim() == "once");
            ensure!(pod.uid() == self.lead.uid() || !ran, "{} ran it: {log}", pod.name_any());
        }
        Ok(message)
    }
}

/// Loses the second node, which an administrator declares out of service, and starts it again after `moved`.
async fn give_up_second(trial: &Trial, moved: impl Future<Output = Result<()>>) -> Result<()> {
    trial.own()?.lose_node(SECOND)?;
    await_second(trial, "Unknown")?;
    trial.kubectl(&["taint", "node", SECOND, OUT_OF_SERVICE])?;
    let moved = Box::pin(moved).await;
    trial.own()?.start_node(&nodes(), SECOND)?;
    trial.kubectl(&["taint", "node", SECOND, &format!("{OUT_OF_SERVICE}-")])?;
    moved
}

pub(super) async fn pods_of_a_node_that_is_given_up_are_made_elsewhere(
    trial: &Trial,
) -> Result<()> {
    let halves = Halves::on_second(trial).await?;
    give_up_second(trial, async { halves.await_elsewhere("LeadLost").await.map(drop) }).await
}

/// A person's instance, and one whose command may be run again, begin again with the last checkpoint, on storage that both
/// nodes reach.
pub(super) async fn leads_of_a_node_that_is_given_up_begin_again_elsewhere(
    trial: &Trial,
) -> Result<()> {
    // A directory of this machine, where the nodes have no directory of their own.
    let shared = trial.own()?.kubeconfig().with_file_name("shared");
    let is_real = View::from_environment()?.is_real();
    let mut runs = Vec::new();
    for (name, fields, command) in [
        ("people", "interactive: true", String::new()),
        ("again", "backoffLimit: 1", format!(", {}", then_on(2))),
    ] {
        let fields = format!("{fields}, archive: {{path: {ARCHIVE}, everySeconds: 10}}");
        let directory = shared.join(name);
        let volumes =
            format!("volumes: {{state: {{path: /state, hostPath: {}}}}}", directory.display());
        let run = apart(trial, name, &fields, &(volumes + &command), SECOND).await?;
        let running = if is_real { Some(run.jobs_in_checkpoint().await?) } else { None };
        runs.push((run, run.pod(0).await?, running));
    }
    give_up_second(trial, async {
        for (run, before, running) in &runs {
            let lead = run.another(0, before).await?;
            ensure!(node_of(&lead) == FIRST, "the lead is on {}", node_of(&lead));
            run.ready().await?;
            match running {
                Some(running) => run.goes_on_from_checkpoint(running).await?,
                None => run.up(2).await?,
            }
        }
        let replaced = runs[0].0.events("involvedObject.name=people,reason=LeadReplaced")?;
        ensure!(replaced.iter().any(|it| it.contains("its node was lost")), "{replaced:?}");
        runs[1].0.ends_on(2).await
    })
    .await?;
    if !is_real {
        let why = "the stand-in for Flux dumps nothing while it runs";
        notes::not_run("queues of leads whose node is lost", why);
    }
    Ok(())
}

/// The kubelet evicts one pod after the other, and the scheduler puts none there meanwhile.
pub(super) async fn pods_of_a_node_that_runs_short_of_disk_are_evicted(
    trial: &Trial,
) -> Result<()> {
    let halves = Halves::on_second(trial).await?;
    trial.own()?.limit_disk(&nodes(), SECOND)?;
    // The kubelet rejects pods that it does not know yet when its disk is full.
    for (run, pod) in [(&halves.once, &halves.lead), (&halves.people, &halves.worker)] {
        let answers = async || Ok(run.exec_in(&pod.name_any(), run.name, &["true"]).ok());
        wait_for("the kubelet to know its pods", answers).await?;
    }
    trial.own()?.fill_disk(SECOND)?;
    let pressed = "--for=condition=DiskPressure=True";
    trial.kubectl(&["wait", "node", SECOND, pressed, "--timeout=2m"])?;
    let message = Box::pin(halves.await_elsewhere("Evicted")).await?;
    ensure!(message.contains("low on resource: ephemeral-storage"), "{message}");
    trial.own()?.clear_disk(SECOND)
}
