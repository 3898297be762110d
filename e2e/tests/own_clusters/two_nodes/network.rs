//! The network between the nodes is cut and restored.

use super::{FIRST, GIVEN_UP_SOON, SECOND, apart, await_given_up, await_second};
use crate::prelude::*;

/// A cut that ends about when Kubernetes notices it.
const SHORT: Duration = Duration::from_secs(20);
/// A cut that Kubernetes and Flux notice, and that ends before Kubernetes evicts pods with the default tolerations.
const LONG: Duration = Duration::from_mins(2);

/// One MiniCluster meets both cuts: the command goes on, and the worker joins again in the same pod. Another one, whose
/// pods are evicted sooner, has another worker after the long cut.
pub(super) async fn brokers_that_cannot_reach_each_other_join_again(trial: &Trial) -> Result<()> {
    let cut = apart(trial, "cut", "", &then_on(2), FIRST).await?;
    let fields = format!("interactive: true, {GIVEN_UP_SOON}");
    let people = apart(trial, "given-up", &fields, "", FIRST).await?;
    let given_up = people.pod(1).await?;
    let before = cut.pod(1).await?;
    for time in [SHORT, LONG] {
        trial.own()?.cut_off(SECOND)?;
        let over = tokio::time::sleep(time);
        let noticed = if time == LONG {
            goes_on_alone(trial, &cut, &people, &given_up).await
        } else {
            Ok(())
        };
        over.await;
        trial.own()?.connect(SECOND)?;
        noticed?;
        await_second(trial, "True")?;
        cut.up(2).await?;
        let after = cut.pod(1).await?;
        ensure!(after.uid() == before.uid(), "after {time:?} the worker's pod is another one");
    }
    people.another(1, &given_up).await?;
    people.up(2).await?;
    cut.ends_on(2).await
}

/// Waits until Flux reports the worker as lost, and runs a job without it.
async fn goes_on_alone(
    trial: &Trial,
    cut: &Instance<'_>,
    people: &Instance<'_>,
    given_up: &Pod,
) -> Result<()> {
    await_second(trial, "Unknown")?;
    cut.brokers(1).await?;
    cut.up(1).await?;
    let host = cut.flux(&["run", "-N1", "hostname"]).await?;
    ensure!(host == "cut-0", "the job ran on {host}");
    await_given_up(people, given_up)
}
