//! What a MiniCluster costs the API server, counted in its audit log.

use crate::prelude::*;
use e2e::audit::{Audit, Request};
use e2e::kubernetes::Kubernetes;
use std::time::Instant;

/// How many objects the operator reads by their names from apply to Complete, however long the run takes.
const READS: usize = 10;
/// The most requests of a run of any size.
const REQUESTS: usize = 35;
/// The most writes among them. One records the run; one returns the lead's address; one may label the lead's pod a second
/// time if the watch of pods is late, without a change.
const WRITES: usize = 15;
/// The least time between two writes of a status that differ in numbers and messages only. A longer run may cost one
/// more write, and one more list of its pods, in each such time.
const PAUSE: Duration = Duration::from_secs(5);
/// How many MiniClusters wait. Each may cost one more write and one more list.
const WAITING: usize = 5;
/// How many renewals of the Lease the test waits for, during which the operator must send no other request.
const RENEWALS: usize = 3;

/// The operator's requests in the trial's namespace since the last call.
fn asked(audit: &mut Audit, trial: &Trial) -> Result<Vec<Request>> {
    let mut requests = audit.operator()?;
    requests.retain(|request| request.namespace() == trial.namespace());
    Ok(requests)
}

/// Checks what a hello-world of `size` pods costs until it is complete.
async fn costs(trial: &Trial, log: &Path, size: u32) -> Result<()> {
    let mut audit = Audit::from_now_on(log)?;
    let began = Instant::now();
    let (name, fields) = (format!("hello{size}"), format!("size: {size}"));
    trial.run(&name, &fields, "command: 'echo hello world'").await?.complete().await?;
    let longer = began.elapsed().saturating_sub(PAUSE);
    let pauses = usize::try_from(longer.as_millis().div_ceil(PAUSE.as_millis()))?;
    let requests = asked(&mut audit, trial)?;
    let count = |wanted: fn(&Request) -> bool| requests.iter().filter(|it| wanted(it)).count();
    let (reads, writes) =
        (count(|request| request.kind().starts_with("get ")), count(Request::is_write));
    let kinds: Vec<String> = requests.iter().map(Request::kind).collect();
    let seen = format!("{size} pods, {longer:?} longer than a pause: {kinds:#?}");
    ensure!((1..=READS).contains(&reads), "{reads} reads by name, {seen}");
    ensure!((1..=WRITES + pauses).contains(&writes), "{writes} writes, {seen}");
    let requests = requests.len();
    let found = format!("{size} pods: {requests} requests, {reads} reads by name, {writes} writes");
    progress::log(&found);
    ensure!(requests <= REQUESTS + 6 * pauses, "{requests} requests, {seen}");
    Ok(())
}

/// Checks what MiniClusters cost that have waited for nodes for a while.
async fn waiting_costs(trial: &Trial, log: &Path) -> Result<()> {
    let names: Vec<String> = (0..WAITING).map(|number| format!("waits{number}")).collect();
    for name in &names {
        trial.run(name, "size: 2, pod: {nodeSelector: {such: none}}", "command: 'true'").await?;
    }
    for name in &names {
        trial.named(name).await_condition("Progressing", "Waiting").await?;
    }
    renewed(log).await?;
    let mut audit = Audit::from_now_on(log)?;
    renewed(log).await?;
    let requests = asked(&mut audit, trial)?;
    progress::log(&format!("{WAITING} that wait: {} requests", requests.len()));
    ensure!(requests.len() <= 2 * WAITING, "{WAITING} that wait: {requests:#?}");
    Ok(())
}

async fn renewed(log: &Path) -> Result<()> {
    let mut audit = Audit::from_now_on(log)?;
    let mut renewals = 0;
    wait_for("renewals of the Lease", async || {
        let new = audit.operator()?;
        renewals += new.iter().filter(|it| it.is_write() && it.kind().contains("leases")).count();
        Ok((renewals >= RENEWALS).then_some(()))
    })
    .await
}

/// Runs `body` in a namespace of its own, where the API server's audit log can be read.
fn counted(purpose: &str, body: impl AsyncFnOnce(&Trial, &Path) -> Result<()> + Send) {
    trial(purpose, async |trial| {
        let Ok(log) = trial.own().map(Kubernetes::audit_log) else {
            let why = "there is no access to the API server's audit log";
            notes::not_run("the cost", why);
            return Ok(());
        };
        body(trial, &log).await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_costs_few_requests_of_any_size() {
    counted("cost", async |trial, log| {
        costs(trial, log, 4).await?;
        costs(trial, log, 12).await?;
        // Requests about the end of the pods may still follow.
        renewed(log).await?;
        let mut audit = Audit::from_now_on(log)?;
        renewed(log).await?;
        let later = asked(&mut audit, trial)?;
        ensure!(later.is_empty(), "{later:#?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn those_that_wait_for_nodes_cost_next_to_nothing() {
    counted("waiting", waiting_costs);
}
