//! The operator is killed, and another one starts. Operators are processes of the test.

use super::{ended_once, ends_when_it_may};
use crate::prelude::*;
use e2e::operator_process::{ARGUMENTS, OperatorProcess};
use e2e::product::install::{NAME, NAMESPACE};
use k8s_openapi::api::core::v1::ConfigMap;
use std::collections::BTreeMap;

/// The image of the agents of another release, which no running pod may need.
const OTHER_AGENT: (&str, &str) =
    ("FLUX_OPERATOR_AGENT_IMAGE", "localhost/flux-e2e/agent-of-another-release:1");

/// Starts an operator with the variables of the Deployment, and with these.
fn start(trial: &Trial, program: &Path, variables: &[(&str, &str)]) -> Result<OperatorProcess> {
    let path =
        "-ojsonpath={range .spec.template.spec.containers[0].env[*]}{.name}={.value}{\"\\n\"}{end}";
    let deployed = trial.kubectl(&["-n", NAMESPACE, "get", "deployment", NAME, path])?;
    let deployed = deployed.lines().filter_map(|line| line.split_once('='));
    let mut operator = trial.program(program);
    operator.args(ARGUMENTS).envs(deployed.filter(|(_, value)| !value.is_empty()));
    OperatorProcess::start(operator.envs(variables.iter().copied()), "operators.log")
}

/// Three commands while no operator runs: the first loses a worker and ends; the second is suspended and resumed, and
/// ends later; the third has ended before, but its hook has not.
pub(super) async fn an_operator_that_is_back_reports_what_happened_without_it(
    trial: &Trial,
    program: &Path,
) -> Result<()> {
    let first = start(trial, program, &[])?;
    let without = trial.run("without", "size: 2", &ends_when_it_may(7)).await?;
    let after = trial.run("after", "size: 1", &ends_when_it_may(0)).await?;
    let hook = "echo hook; until test -e /tmp/go; do sleep 0.2; done";
    let hook = format!("command: 'echo once', commands: {{post: '{hook}'}}");
    let ending = trial.run("ending", "size: 1", &hook).await?;
    without.ready().await?;
    after.ready().await?;
    ending.printed(0, "hook").await?;
    first.kill()?;
    let worker = without.delete_pod(1).await?;
    await_pod_ready(&without, &without.another(1, &worker).await?)?;
    suspend_and_resume(trial, &after).await?;
    without.go(0).await?;
    without.kubectl(&["wait", "job/without", "--for=condition=Failed", "--timeout=3m"])?;
    let next = start(trial, program, &[])?;
    ended_once(trial, &without, 2, 7).await?;
    // The hook may end now, and the operator is killed meanwhile.
    ending.go(0).await?;
    next.kill()?;
    let last = start(trial, program, &[])?;
    after.go(0).await?;
    ended_once(trial, &ending, 1, 0).await?;
    ended_once(trial, &after, 1, 0).await?;
    last.kill()
}

async fn suspend_and_resume(trial: &Trial, run: &Instance<'_>) -> Result<()> {
    let object = format!("job/{}", run.name);
    let suspend = |suspend: bool| run.patch(&object, &json!({ "spec": { "suspend": suspend } }));
    let before = run.pod(0).await?;
    suspend(true)?;
    until_true("the pods to go", async || Ok(trial.pods(run.name).await?.is_empty())).await?;
    suspend(false)?;
    await_pod_ready(run, &run.another(0, &before).await?)
}

fn await_pod_ready(run: &Instance<'_>, pod: &Pod) -> Result<()> {
    let ready = ["wait", "pod", &pod.name_any(), "--for=condition=Ready", "--timeout=3m"];
    run.kubectl(&ready).map(drop)
}

/// The next release can read the configuration of one of two MiniClusters; the other configuration has another version.
/// The operator changes the size of the first and leaves the second alone; both succeed.
pub(super) async fn what_runs_goes_on_when_the_operator_is_another_one(
    trial: &Trial,
    program: &Path,
) -> Result<()> {
    let former = start(trial, program, &[])?;
    let command = "command: 'until test -e /tmp/go; do sleep 0.2; done'";
    let read = trial.run("read", "size: 2, maxSize: 3", command).await?;
    let unread = trial.run("unread", "size: 2, maxSize: 3", command).await?;
    read.brokers(2).await?;
    unread.brokers(2).await?;
    let mut other = data(trial).await?;
    for text in other.values_mut() {
        *text = text.replace("version = 1", "version = 2");
    }
    unread.patch("configmap/unread-agent", &json!({ "data": &other }))?;
    former.kill()?;

    let next = start(trial, program, &[OTHER_AGENT])?;
    for run in [&read, &unread] {
        run.edit(&json!({ "size": 3 }))?;
    }
    read.brokers(3).await?;
    let condition = unread.await_condition("Progressing", "with the agent image").await?;
    ensure!(condition.reason == "ChangeRefused", "{condition:?}");
    ensure!(data(trial).await? == other, "the configuration was changed");
    for run in [&read, &unread] {
        run.go(0).await?;
        run.complete().await?;
    }
    ensure!(data(trial).await? == other, "the configuration was changed in the end");
    next.kill()
}

/// The configuration of the agents that the next release cannot read.
async fn data(trial: &Trial) -> Result<BTreeMap<String, String>> {
    let config = trial.api::<ConfigMap>().get("unread-agent").await?;
    config.data.context("the ConfigMap is empty")
}

async fn await_left(trial: &Trial, expected: &str) -> Result<()> {
    let names = ["get", "miniclusters", "-ojsonpath={.items[*].metadata.name}"];
    let is_left = async || Ok(trial.kubectl(&names)? == expected);
    until_true(&format!("{expected} to be left"), is_left).await
}

/// An operator that keeps two finds three in one of two namespaces, and then a fourth, which is the oldest and ends last.
pub(super) async fn the_newest_finished_ones_of_each_namespace_stay(
    trial: &Trial,
    program: &Path,
) -> Result<()> {
    let users = trial.another("users").await?;
    let former = start(trial, program, &[])?;
    let going = trial.run("going", "size: 1", &ends_when_it_may(0)).await?;
    let finished = [(&users, "a"), (&users, "b"), (trial, "a"), (trial, "b"), (trial, "c")];
    for (of, name) in finished {
        of.run(name, "size: 1", "command: 'true'").await?.complete().await?;
    }
    former.kill()?;
    let next = start(trial, program, &[("FLUX_OPERATOR_KEEP_FINISHED", "2")])?;
    await_left(trial, "b c going").await?;
    going.go(0).await?;
    await_left(trial, "c going").await?;
    going.complete().await?;
    await_left(&users, "a b").await?;
    users.clean().await?;
    next.kill()
}
