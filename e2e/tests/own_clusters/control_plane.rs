//! The API server, its storage and the operator fail in turn: each command runs once, nothing is lost, doubled or stuck,
//! and the conditions of each MiniCluster describe its end. One cluster serves all cases, one after the other. Needs root.

mod api_server;
mod operator;
mod storage;

use crate::prelude::*;
use e2e::product::install::{NAME, NAMESPACE};

#[test]
#[ignore = "needs root"]
fn miniclusters_outlive_faults_of_the_control_plane() {
    on_a_cluster(&options("control", Network::default()), try_all);
}

fn try_all(environment: &Environment) -> Result<()> {
    case(environment, "api", api_server::commands_go_on_and_end_while_the_api_server_is_away)?;
    case(environment, "etcd", storage::slow_storage_only_takes_its_time)?;
    // From here on the operators are processes of the tests.
    environment.kubectl(&["-n", NAMESPACE, "scale", "deployment", NAME, "--replicas=0"])?;
    let pods = format!("--selector=app.kubernetes.io/name={NAME}");
    let gone = ["-n", NAMESPACE, "wait", "pods", "--for=delete", &pods, "--timeout=1m"];
    environment.kubectl(&gone)?;
    let program = environment.operator().context("the operator was not built")?;
    case(environment, "killed", async |trial| {
        operator::an_operator_that_is_back_reports_what_happened_without_it(trial, program).await
    })?;
    case(environment, "upgrade", async |trial| {
        operator::what_runs_goes_on_when_the_operator_is_another_one(trial, program).await
    })?;
    case(environment, "surplus", async |trial| {
        operator::the_newest_finished_ones_of_each_namespace_stay(trial, program).await
    })
}

/// The fields of a container whose command prints `once`, waits until it may go on, and ends with `code`.
fn ends_when_it_may(code: u8) -> String {
    format!("command: 'echo once; until test -e /tmp/go; do sleep 0.2; done; exit {code}'")
}

pub(super) async fn address_of_lead(run: &Instance<'_>) -> Result<String> {
    let lead = run.pod(0).await?;
    lead.status.and_then(|status| status.pod_ip).context("the lead has no address")
}

/// Waits until the MiniCluster has ended, and fails unless it ended like its command: with `code`, in one run, in the
/// pods that were made first.
pub(super) async fn ended_once(
    trial: &Trial,
    run: &Instance<'_>,
    size: usize,
    code: i32,
) -> Result<()> {
    let name = run.name;
    let found = if code == 0 {
        run.complete().await?.status.and_then(|status| status.exit_code)
    } else {
        run.fails("CommandFailed").await?.0
    };
    ensure!(found == Some(code), "{name} ended with {found:?}");
    // Kubernetes deletes the workers that are left when a Job ends.
    let pods = trial.pods(name).await?.len();
    ensure!((1..=size).contains(&pods), "{name} has {pods} pods");
    let times = run.times("once").await?;
    ensure!(times == 1, "{name} ran {times} times");
    Ok(())
}
