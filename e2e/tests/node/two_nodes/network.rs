//! The network between the nodes is cut, and there again.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::trial::{Trial, is_true, logs::container_log};
use flux_operator::crd::MiniCluster;
use kube::ResourceExt as _;

use super::{
    DEADLINE, FIRST, FLUX, GIVEN_UP_SOON, Pair, SECOND, another, await_given_up, pod, times,
};

/// A cut that Kubernetes has hardly noticed when it is over.
const SHORT: Duration = Duration::from_secs(20);
/// A cut that Kubernetes and Flux have noticed, and that is over before Kubernetes gives pods up, unless they ask
/// for that.
const LONG: Duration = Duration::from_mins(2);

/// One MiniCluster has both: the command goes on, and the worker joins again in the same pod. One whose pods are
/// given up sooner has another worker after the long one.
pub(super) async fn brokers_that_cannot_reach_each_other_join_again(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let name = "cut";
    let spec = "containers: [{image: 'ubuntu:24.04', launcher: true, command: 'echo begun; \
                until test -e /tmp/go; do sleep 0.2; done; flux run -N2 hostname; echo done'}]";
    let lead = pair.apart(trial, name, spec, FIRST).await?;
    let people =
        format!("interactive: true, {GIVEN_UP_SOON}, containers: [{{image: 'ubuntu:24.04'}}]");
    pair.apart(trial, "given-up", &people, FIRST).await?;
    let given_up = pod(trial, "given-up", 1).await?;
    let before = pod(trial, name, 1).await?;
    for time in [SHORT, LONG] {
        pair.cluster.cut_off(SECOND)?;
        let cut = tokio::time::sleep(time);
        let noticed =
            if time == LONG { goes_on_alone(pair, trial, name, &lead).await } else { Ok(()) };
        cut.await;
        pair.cluster.connect(SECOND)?;
        noticed?;
        pair.await_second("True")?;
        pair.await_up(trial, name, "2").await?;
        let after = pod(trial, name, 1).await?;
        ensure!(after.uid() == before.uid(), "after {time:?} the worker's pod is another one");
    }
    another(trial, "given-up", 1, &given_up).await?;
    pair.await_up(trial, "given-up", "2").await?;
    pair.exec(trial, name, &lead, &["touch", "/tmp/go"])?;
    let cluster = trial.await_finished(name, DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
    let log = container_log(trial, &pod(trial, name, 0).await?, name).await?;
    for line in ["begun", "cut-0", "cut-1", "done"] {
        ensure!(times(&log, line) == 1, "not once {line}:\n{log}");
    }
    Ok(())
}

/// Waits until the worker is missed, and runs a job without it.
async fn goes_on_alone(pair: &Pair<'_>, trial: &Trial, name: &str, lead: &str) -> Result<()> {
    noticed(pair, trial, name).await?;
    let told = pair.exec(trial, name, lead, &[FLUX, "run", "-N1", "hostname"])?;
    ensure!(told.trim() == "cut-0", "the job ran on {told}");
    await_given_up(trial, "given-up").await
}

async fn noticed(pair: &Pair<'_>, trial: &Trial, name: &str) -> Result<()> {
    pair.await_second("Unknown")?;
    let one = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.ready_brokers == 1)
    };
    trial.await_minicluster(name, "with one broker", DEADLINE, one).await?;
    pair.await_up(trial, name, "1").await
}
