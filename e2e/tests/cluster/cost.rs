//! What a MiniCluster costs the API server, counted in its audit log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::{
    audit::{Audit, Request},
    environment::Environment,
    not_run,
    progress::Progress,
    trial::{Trial, instance::look},
};

use crate::{run, trial};

/// Objects that the operator reads by their names from apply to Complete, however long that takes.
const READS: usize = 10;
/// All requests, whatever the size.
const REQUESTS: usize = 35;
/// Writes among them. One gives the lead's address back; one may label the lead's pod a second time, where the watch of
/// pods is late: that changes nothing.
const WRITES: usize = 14;
/// In what time a run is expected to end. One that takes longer may be written about once more in each
/// [`PAUSE`], and its pods may be listed.
const USUALLY: Duration = Duration::from_secs(10);
/// How often.
const PAUSE: Duration = Duration::from_secs(5);
/// How often the Lease is renewed while it is watched that nothing else is asked for.
const RENEWALS: usize = 3;

/// The operator's requests so far that are in `namespace`, how many of each kind.
fn asked(log: &Path, namespace: &str) -> Result<BTreeMap<String, usize>> {
    let is_there = |request: &Request| {
        let object = request.object_ref.as_ref();
        object.and_then(|object| object.namespace.as_deref()) == Some(namespace)
    };
    let mut counts = BTreeMap::new();
    for request in Audit::from_the_beginning(log).operator()?.iter().filter(|it| is_there(it)) {
        *counts.entry(request.kind()).or_default() += 1;
    }
    Ok(counts)
}

fn is_write(request: &str) -> bool {
    !["get", "list", "watch"].iter().any(|verb| request.starts_with(verb))
}

/// Checks what a hello-world of `size` pods costs until it is complete.
async fn costs(trial: &Trial, log: &Path, size: u32) -> Result<()> {
    let before = asked(log, trial.namespace())?;
    let began = Instant::now();
    let (name, fields) = (format!("hello{size}"), format!("size: {size}"));
    run(trial, &name, &fields, "command: 'echo hello world'").await?.complete().await?;
    let longer = began.elapsed().saturating_sub(USUALLY);
    let pauses = usize::try_from(longer.as_millis().div_ceil(PAUSE.as_millis()))?;
    let mut counts = asked(log, trial.namespace())?;
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

/// Waits until the Lease was renewed some times.
async fn renewed(log: &Path) -> Result<()> {
    let mut audit = Audit::from_now_on(log)?;
    let mut renewals = 0;
    look("renewals of the Lease", async || {
        let new = audit.operator()?;
        renewals += new.iter().filter(|it| it.is_write() && it.kind().contains("leases")).count();
        Ok((renewals >= RENEWALS).then_some(()))
    })
    .await
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_costs_few_requests_whatever_its_size_and_none_when_it_is_settled() {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    let Some(log) = environment.audit_log() else {
        not_run::note("the cost", "there is no access to the API server's audit log", &progress);
        return;
    };
    trial("cost", &[], async |trial| {
        costs(trial, &log, 4).await?;
        costs(trial, &log, 12).await?;
        // What the end of the pods brings may still be on its way.
        renewed(&log).await?;
        let settled = asked(&log, trial.namespace())?;
        renewed(&log).await?;
        let later = asked(&log, trial.namespace())?;
        ensure!(settled == later, "{settled:#?}\nand then\n{later:#?}");
        Ok(())
    });
}
