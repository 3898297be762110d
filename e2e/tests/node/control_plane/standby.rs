//! Two operators run, of which one acts.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::Trial;

use super::{
    Plane, address_of_lead, await_ready, ended_once, ends_when_told, operator::Operators, tell,
};

/// The one that acts is killed while a MiniCluster starts and another runs. The other waits until the Lease has
/// expired, and goes on with what there is.
pub(super) async fn of_two_operators_one_acts_and_the_other_takes_over(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let operators = Operators::prepare(plane, trial).await?;
    let first = operators.start("one", 18080)?;
    first.await_acting().await?;
    let mut other = operators.start("other", 18090)?;
    trial.apply(&ends_when_told("runs", "size: 2,", 0)).await?;
    await_ready(trial, "runs").await.with_context(|| first.tail())?;
    trial.apply(&ends_when_told("starts", "size: 2,", 7)).await?;
    let (acts, has_reconciled) = other.acts().await?;
    ensure!(!acts && !has_reconciled, "both operators act: {}", other.tail());
    let holder = operators.holder().await?.unwrap_or_default();
    ensure!(holder.starts_with("one_"), "the Lease is held by {holder:?}");

    first.kill()?;
    trial.apply(&ends_when_told("comes", "size: 1,", 0)).await?;
    tell(&address_of_lead(trial, "runs").await?).await?;
    other.await_acting().await.with_context(|| other.tail())?;
    let holder = operators.holder().await?.unwrap_or_default();
    ensure!(holder.starts_with("other_"), "the Lease is held by {holder:?}");
    ended_once(trial, "runs", 2, 0).await?;
    for (name, size, code) in [("starts", 2, 7), ("comes", 1, 0)] {
        await_ready(trial, name).await?;
        tell(&address_of_lead(trial, name).await?).await?;
        ended_once(trial, name, size, code).await?;
    }
    other.ensure_alive()
}
