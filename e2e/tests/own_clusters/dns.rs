//! The cluster's DNS answers nothing, or gives outdated answers.

use super::control_plane::{address_of_lead, ended_once};
use crate::prelude::*;

/// How long the DNS keeps answers: longer than any case takes.
const DNS_CACHE: u32 = 600;
/// How long it answers nothing.
const DOWN: Duration = Duration::from_secs(20);

/// A MiniCluster, and another one, applied later, that joins the first by its name.
const BURSTING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/bursting");
const LATER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/bursting/later");

#[test]
#[ignore = "needs root"]
fn miniclusters_outlive_faults_of_dns() {
    let network = Network { dns_cache: DNS_CACHE, ..Network::default() };
    on_a_cluster(&options("dns", network), |environment| {
        case(environment, "down", names_that_nobody_answers_are_waited_for)?;
        case(environment, "stale", a_new_lead_is_found_while_its_name_leads_to_the_old_one)
    });
}

/// Brokers of one MiniCluster find each other without DNS. Those of another, which have only a name, wait for DNS and log
/// that.
async fn names_that_nobody_answers_are_waited_for(trial: &Trial) -> Result<()> {
    trial.kubectl(&["apply", "-f", BURSTING])?;
    let (first, later) = (trial.named("bursting"), trial.named("burst-0"));
    first.ready().await?;

    trial.own()?.halt("coredns")?;
    let down = tokio::time::sleep(DOWN);
    trial.kubectl(&["apply", "-f", LATER])?;
    let command = "launcher: true, command: 'echo once; flux run -N2 hostname'";
    let plain = trial.run("plain", "size: 2", command).await?;
    ended_once(trial, &plain, 2, 0).await?;
    later.printed(0, "the name servers gave no answer for bursting-lead").await?;
    down.await;
    trial.own()?.resume("coredns")?;
    later.brokers(2).await?;
    first.up(4).await
}

/// Workers find the lead by an address that stays.
async fn a_new_lead_is_found_while_its_name_leads_to_the_old_one(trial: &Trial) -> Result<()> {
    let run = trial.run("people", "size: 2, interactive: true", "").await?;
    run.ready_with(2).await?;
    let worker = run.pod(1).await?;
    let host = format!("people-0.people.{}.svc.cluster.local", trial.namespace());
    let answer = async || {
        let answer = run.exec(1, &["getent", "hosts", &host]).await?;
        answer.split_whitespace().next().map(str::to_owned).context("no address")
    };
    let before = address_of_lead(&run).await?;
    // A client that asked too early got the answer that there is no such name, and the DNS keeps that answer.
    let answered = wait_for("the name of the lead", async || Ok(answer().await.ok())).await?;
    ensure!(answered == before, "the lead is at {before}, and DNS answers {answered}");

    let lead = run.delete_pod(0).await?;
    run.another(0, &lead).await?;
    run.up(2).await?;
    let (after, answered) = (address_of_lead(&run).await?, answer().await?);
    ensure!(
        after != before && answered == before,
        "the lead is at {after}, DNS answers {answered}"
    );
    ensure!(run.pod(1).await?.uid() == worker.uid(), "the worker was made again");
    run.brokers(2).await.map(drop)
}
