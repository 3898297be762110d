//! The storage of the API server is slow.

use super::{ended_once, ends_when_it_may};
use crate::prelude::*;
use e2e::audit::Audit;
use e2e::kubernetes::Kubernetes;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// How long etcd answers nothing, again and again.
const HALTED: Duration = Duration::from_millis(1_500);
/// How long it answers in between.
const ANSWERS: Duration = Duration::from_millis(200);

/// MiniClusters are created, scaled, ended and deleted while requests take seconds.
pub(super) async fn slow_storage_only_takes_its_time(trial: &Trial) -> Result<()> {
    let mut audit = Audit::from_now_on(&trial.own()?.audit_log())?;
    let (used, end) = channel();
    let cluster = trial.own()?.clone();
    let slowed = std::thread::spawn(move || slow_down(&cluster, &end));
    let outcome = create_scale_and_end(trial).await;
    drop(used);
    let slowed = slowed.join().map_err(|_| anyhow!("slowing etcd down panicked"))?;
    outcome.and(slowed)?;
    let requests = audit.operator()?;
    let slow = requests.iter().filter(|it| it.is_write() && it.took() > HALTED / 3).count();
    ensure!(slow > 0, "no write of the operator was slow");
    Ok(())
}

/// Halts etcd again and again, until the sender of `end` is dropped.
fn slow_down(cluster: &Kubernetes, end: &Receiver<()>) -> Result<()> {
    let over = |after| end.recv_timeout(after) == Err(RecvTimeoutError::Disconnected);
    loop {
        cluster.halt("etcd")?;
        let is_over = over(HALTED);
        cluster.resume("etcd")?;
        if is_over || over(ANSWERS) {
            return Ok(());
        }
    }
}

async fn create_scale_and_end(trial: &Trial) -> Result<()> {
    let people = trial.run("people", "size: 1, maxSize: 2, interactive: true", "").await?;
    let good = trial.run("good", "size: 1", &ends_when_it_may(0)).await?;
    let bad = trial.run("bad", "size: 1", &ends_when_it_may(7)).await?;
    people.ready().await?;
    people.edit(&json!({ "size": 2 }))?;
    for (run, code) in [(&good, 0), (&bad, 7)] {
        run.ready().await?;
        run.go(0).await?;
        ended_once(trial, run, 1, code).await?;
    }
    people.brokers(2).await?;
    people.delete().await
}
