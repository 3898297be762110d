//! The API server answers nothing.

use super::{address_of_lead, ended_once};
use crate::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;

/// How long the API server is away: longer than an operator may hold a Lease that it cannot renew.
const AWAY: Duration = Duration::from_secs(20);
/// The longest time between two jobs of an instance that goes on, on a busy machine.
const GAP: u64 = 8;

/// A program that waits until a client connects to its pod, without Kubernetes or Flux.
const UNTIL_CONNECTED: &str = "perl -MIO::Socket::INET -e \
    \"IO::Socket::INET->new(LocalPort => 4000, Listen => 1)->accept or die\"";
const PORT: u16 = 4000;

/// The fields of a container whose command prints `once`, waits for a connection, and ends with `code`.
fn ends_when_connected(code: u8) -> String {
    format!("command: 'echo once; {UNTIL_CONNECTED}; exit {code}'")
}

/// While the API server is away, an instance goes on with its jobs, and commands end with 0 and with 7.
pub(super) async fn commands_go_on_and_end_while_the_api_server_is_away(
    trial: &Trial,
) -> Result<()> {
    // Runs one job after the other on both brokers, and prints the time of each end.
    let jobs = "launcher: true, command: 'until test -e /tmp/go; do flux run -N2 hostname; \
                echo at $(date +%s); sleep 0.5; done'";
    let jobs = trial.run("jobs", "size: 2", jobs).await?;
    let good = trial.run("good", "size: 1", &ends_when_connected(0)).await?;
    let bad = trial.run("bad", "size: 1", &ends_when_connected(7)).await?;
    let mut addresses = Vec::new();
    for run in [&good, &bad] {
        run.ready().await?;
        addresses.push(address_of_lead(run).await?);
    }
    jobs.ready().await?;
    jobs.printed(0, "\nat ").await?;

    let names_of_pods = async || -> Result<Vec<_>> {
        Ok(trial.pods("jobs").await?.iter().map(ResourceExt::name_any).collect())
    };
    let before = names_of_pods().await?;
    trial.own()?.halt("kube-apiserver")?;
    let (begin, away) = (now()?, tokio::time::sleep(AWAY));
    let mut ended = Ok(());
    for address in &addresses {
        ended = ended.and(connect(address).await);
    }
    away.await;
    let end = now()?;
    trial.own()?.resume("kube-apiserver")?;
    ended?;

    ended_once(trial, &good, 1, 0).await?;
    ended_once(trial, &bad, 1, 7).await?;
    // When a Job ends, Kubernetes deletes the workers that are left.
    let after = names_of_pods().await?;
    ensure!(after == before, "the pods {before:?} are {after:?} now");
    jobs.go(0).await?;
    jobs.complete().await?;
    let log = jobs.log(0).await?;
    let seen = log.lines().filter_map(|line| line.strip_prefix("at ")?.trim().parse().ok());
    let within: Vec<u64> = seen.filter(|it| (begin..=end).contains(it)).collect();
    let times = [&[begin], &within[..], &[end]].concat();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.max().unwrap_or_default();
    ensure!(longest <= GAP, "no job ran for {longest} s while the API server was away:\n{log}");
    Ok(())
}

/// Lets the command of the pod at this address end, as soon as it listens.
async fn connect(address: &str) -> Result<()> {
    wait_for("the command to listen", async || Ok(TcpStream::connect((address, PORT)).await.ok()))
        .await
        .map(drop)
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
