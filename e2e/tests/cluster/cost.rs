//! What a MiniCluster costs the API server, counted in its audit log.

use crate::{run, trial};
use anyhow::{Result, ensure};
use e2e::{
    audit::{Audit, Request},
    environment::Environment,
    not_run,
    progress::Progress,
    trial::Trial,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Objects that the operator reads by their names from apply to Complete, however long that takes.
const READS: usize = 10;
/// All requests, whatever the size.
const REQUESTS: usize = 35;
/// Writes among them; the last gives the lead's address back.
const WRITES: usize = 13;
/// In what time a run is expected to end. One that takes longer may be written about once more in each
/// [`PAUSE`], and its pods may be listed.
const USUALLY: Duration = Duration::from_secs(10);
/// How often.
const PAUSE: Duration = Duration::from_secs(5);
/// How often the Lease is renewed while it is watched that nothing else is asked for.
const RENEWALS: usize = 3;
/// Longest wait for these.
const RENEWED: Duration = Duration::from_mins(2);

/// What the operator asks of the API server.
struct Asked<'log> {
    log: &'log Path,
}

impl Asked<'_> {
    /// The requests so far.
    fn requests(&self) -> Result<Vec<Request>> {
        Audit::from_the_beginning(self.log).operator()
    }

    /// The requests in `namespace`, how many of each kind.
    fn in_namespace(&self, namespace: &str) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for request in self.requests()? {
            let object = request.object_ref.as_ref();
            if object.and_then(|object| object.namespace.as_deref()) == Some(namespace) {
                *counts.entry(request.kind()).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// How often the Lease was renewed.
    fn renewals(&self) -> Result<usize> {
        let is_lease = |request: &Request| {
            let object = request.object_ref.as_ref();
            object.and_then(|object| object.resource.as_deref()) == Some("leases")
                && request.is_write()
        };
        Ok(self.requests()?.iter().filter(|request| is_lease(request)).count())
    }
}

fn is_write(request: &str) -> bool {
    !["get", "list", "watch"].iter().any(|verb| request.starts_with(verb))
}

/// Runs `body` with the audit log, where there is one.
fn audited(purpose: &str, body: impl AsyncFnOnce(&Trial, &Asked<'_>) -> Result<()> + Send) {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    let Some(log) = environment.audit_log() else {
        not_run::note(purpose, "there is no access to the API server's audit log", &progress);
        return;
    };
    trial(purpose, &[], async |trial| body(trial, &Asked { log: &log }).await);
}

/// Checks what a hello-world of `size` pods costs until it is complete.
async fn costs(trial: &Trial, asked: &Asked<'_>, size: u32) -> Result<()> {
    let before = asked.in_namespace(trial.namespace())?;
    let began = Instant::now();
    let name = format!("hello{size}");
    run(trial, &name, &format!("size: {size}"), "command: 'echo hello world'")
        .await?
        .complete()
        .await?;
    let longer = began.elapsed().saturating_sub(USUALLY);
    let pauses = usize::try_from(longer.as_secs().div_ceil(PAUSE.as_secs()))?;
    let mut counts = asked.in_namespace(trial.namespace())?;
    for (request, count) in before {
        *counts.entry(request).or_default() -= count;
    }
    let count = |wanted: fn(&str) -> bool| -> usize {
        counts.iter().filter(|(request, _)| wanted(request)).map(|(_, count)| count).sum()
    };
    let (requests, writes) = (count(|_| true), count(is_write));
    let reads = count(|request| request.starts_with("get "));
    let seen = format!("{size} pods, {longer:?} longer than usual: {counts:#?}");
    ensure!((1..=READS).contains(&reads), "{reads} reads by name, {seen}");
    ensure!((1..=WRITES + pauses).contains(&writes), "{writes} writes, {seen}");
    ensure!(requests <= REQUESTS + 6 * pauses, "{requests} requests, {seen}");
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_costs_few_requests_whatever_its_size_and_none_when_it_is_settled() {
    audited("cost", async |trial, asked| {
        costs(trial, asked, 4).await?;
        costs(trial, asked, 12).await?;
        let end = Instant::now() + RENEWED;
        // What the end of the pods brings may still be on its way.
        renewed(asked, end).await?;
        let settled = asked.in_namespace(trial.namespace())?;
        renewed(asked, end).await?;
        let later = asked.in_namespace(trial.namespace())?;
        ensure!(settled == later, "{settled:#?}\nand then\n{later:#?}");
        Ok(())
    });
}

/// Waits until the Lease was renewed some times.
async fn renewed(asked: &Asked<'_>, end: Instant) -> Result<()> {
    let begin = asked.renewals()?;
    while asked.renewals()? < begin + RENEWALS {
        ensure!(Instant::now() < end, "the Lease is not renewed any more");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
