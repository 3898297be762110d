//! Twenty `MiniClusters` come and go at the same time: nothing is left of them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::{
    product::install::{NAME, NAMESPACE},
    trial::{Trial, condition, is_true},
};
use flux_operator::crd::{MiniCluster, State};
use futures::future::try_join_all;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, RngSeed, TestRunner},
};
use serde_json::{Value, json};

use super::{DEADLINE, Plane, minicluster, until};

/// How many there are.
const COUNT: usize = 20;
/// Largest size of one.
const MOST: u32 = 3;

/// What one of them is, and what becomes of it.
#[derive(Debug, Clone)]
struct Life {
    size: u32,
    suspended: bool,
    work: Work,
    beside: Beside,
    actions: Vec<(Moment, Action)>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// A command that ends with this code.
    Ends(i32),
    People,
    /// None: its pods fit no node. They cost the node nothing, and everybody else as much.
    Nowhere,
}

/// What it has besides its brokers.
#[derive(Debug, Clone, Copy)]
enum Beside {
    Nothing,
    /// A sidecar that has a Service.
    Sidecar,
    /// The pod of `services`.
    ServicesPod,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Scale(u32),
    Suspend(bool),
}

/// When something is done.
#[derive(Debug, Clone, Copy)]
enum Moment {
    AtOnce,
    /// The operator has answered.
    Accepted,
    /// It runs, or it has ended, or it is suspended.
    Settled,
}

/// How it comes that there is nothing of it any more.
#[derive(Debug, Clone, Copy)]
enum End {
    Deleted(Moment),
    DeletedInForeground(Moment),
    /// Its end is waited for, if it has one; then it is deleted.
    Ended,
    /// It goes by itself when it has ended, or somebody deletes it.
    Expires,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let work = prop_oneof![
        3 => Just(Work::Ends(0)),
        2 => Just(Work::Ends(7)),
        1 => Just(Work::People),
        5 => Just(Work::Nowhere),
    ];
    let beside = prop_oneof![6 => Just(Beside::Nothing), 1 => Just(Beside::Sidecar), 1 => Just(Beside::ServicesPod)];
    let action =
        prop_oneof![(1..=MOST).prop_map(Action::Scale), any::<bool>().prop_map(Action::Suspend)];
    let end = prop_oneof![
        2 => moment().prop_map(End::Deleted),
        1 => moment().prop_map(End::DeletedInForeground),
        2 => Just(End::Ended),
        2 => Just(End::Expires),
    ];
    let size = prop_oneof![6 => Just(1), 2 => Just(2), 1 => Just(MOST)];
    let suspended = prop::bool::weighted(0.1);
    let actions = vec((moment(), action), 0..3);
    let life = (size, suspended, work, beside, actions, end).prop_map(
        |(size, suspended, work, beside, actions, end)| Life {
            size,
            suspended,
            work,
            beside,
            actions,
            end,
        },
    );
    vec(life, COUNT)
}

fn moment() -> impl Strategy<Value = Moment> {
    prop_oneof![Just(Moment::AtOnce), Just(Moment::Accepted), Just(Moment::Settled)]
}

/// The same each time, unless `PROPTEST_RNG_SEED` asks for others.
fn seed() -> RngSeed {
    let asked = std::env::var_os("PROPTEST_RNG_SEED").is_some();
    if asked { Config::default().rng_seed } else { RngSeed::Fixed(20_261_123) }
}

/// The operator does not end, and counts nothing by the names of what has gone.
pub(super) async fn nothing_is_left_of_twenty_that_come_and_go(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let seed = seed();
    plane.progress.say(&format!("{COUNT} MiniClusters at random, with {seed:?}"));
    let mut runner = TestRunner::new(Config { rng_seed: seed, ..Config::default() });
    let lives = lives().new_tree(&mut runner).map_err(|error| anyhow!("{error}"))?.current();
    let before = restarts(plane, trial).await?;
    live_all(trial, &lives).await?;
    until("everything to be gone", async || {
        let left = left(plane, trial)?;
        Ok(left.is_empty().then_some(()))
    })
    .await
    .with_context(|| format!("left: {:?}", left(plane, trial)))?;
    let after = restarts(plane, trial).await?;
    ensure!(before == after, "the operator was {before:?} and is {after:?}");
    let service = format!("services/{NAME}-metrics:metrics/proxy/metrics");
    let metrics =
        plane.kubectl(&["get", "--raw", &format!("/api/v1/namespaces/{NAMESPACE}/{service}")])?;
    let counted = metrics.contains("flux_operator_reconcile_runs_total");
    ensure!(counted && !metrics.contains(trial.namespace()), "{metrics}");
    ensure!(!metrics.contains("category=\"Internal\""), "it has panicked: {metrics}");
    Ok(())
}

async fn live_all(trial: &Trial, lives: &[Life]) -> Result<()> {
    let named = lives.iter().enumerate().map(async |(index, life)| {
        let name = format!("life-{index}");
        live(trial, &name, life).await.with_context(|| format!("{name}: {life:?}"))
    });
    try_join_all(named).await.map(drop)
}

async fn live(trial: &Trial, name: &str, life: &Life) -> Result<()> {
    trial.apply(&minicluster(name, &specification(life).to_string())).await?;
    let clusters = trial.api::<MiniCluster>();
    let uid = clusters.get(name).await.map_or_else(|_| None, |it| it.uid()).unwrap_or_default();
    for (moment, action) in &life.actions {
        // A lead that lacks brokers takes a minute until it knows that fewer are enough.
        let shrinks = matches!(action, Action::Scale(size) if *size < MOST);
        reach(trial, name, life, if shrinks { Moment::Settled } else { *moment }).await?;
        let change = match action {
            Action::Scale(size) => json!({ "size": size }),
            Action::Suspend(suspend) => json!({ "suspend": suspend }),
        };
        edit(trial, name, &change).await?;
    }
    let ends = matches!(life.work, Work::Ends(_));
    match life.end {
        End::Deleted(moment) => {
            reach(trial, name, life, moment).await?;
            delete(trial, name, &DeleteParams::background()).await?;
        }
        End::DeletedInForeground(moment) => {
            reach(trial, name, life, moment).await?;
            delete(trial, name, &DeleteParams::foreground()).await?;
        }
        End::Ended | End::Expires if ends => {
            edit(trial, name, &json!({ "suspend": false })).await?;
            if matches!(life.end, End::Ended) {
                ended(trial, name, life).await?;
                delete(trial, name, &DeleteParams::background()).await?;
            }
        }
        End::Ended | End::Expires => delete(trial, name, &DeleteParams::background()).await?,
    }
    let gone = await_condition(clusters, name, is_deleted(&uid));
    tokio::time::timeout(DEADLINE, gone).await.context("waiting until it is gone")??;
    Ok(())
}

fn specification(life: &Life) -> Value {
    let mut runner = json!({ "image": "ubuntu:24.04" });
    if let Work::Ends(code) = life.work {
        runner["command"] = json!(format!("echo once; exit {code}"));
    }
    let other = json!({
        "name": "beside", "image": "ubuntu:24.04", "runFlux": false, "command": "sleep 600",
        "ports": [8080],
    });
    let mut spec = json!({
        "size": life.size, "maxSize": MOST, "suspend": life.suspended,
        "interactive": !matches!(life.work, Work::Ends(_)), "containers": [runner],
    });
    if life.work == Work::Nowhere {
        spec["pod"] = json!({ "nodeSelector": { "e2e.invalid/none": "none" } });
    }
    match life.beside {
        Beside::Nothing => {}
        Beside::Sidecar => spec["containers"] = json!([spec["containers"][0], other]),
        Beside::ServicesPod => spec["services"] = json!([other]),
    }
    if matches!(life.end, End::Expires) {
        spec["ttlSecondsAfterFinished"] = json!(0);
    }
    spec
}

/// Waits for a moment in the life of a MiniCluster, or until it is gone.
async fn reach(trial: &Trial, name: &str, life: &Life, moment: Moment) -> Result<()> {
    let reached = |cluster: Option<&MiniCluster>| {
        let Some(cluster) = cluster else { return true };
        let state = cluster.status.as_ref().and_then(|status| status.state);
        match moment {
            Moment::AtOnce => true,
            Moment::Accepted => is_true(cluster, "Accepted"),
            Moment::Settled => {
                let settled = [State::Running, State::Suspended, State::Complete, State::Failed];
                let waits = life.work == Work::Nowhere && state == Some(State::Pending);
                waits || state.is_some_and(|state| settled.contains(&state))
            }
        }
    };
    let reached = await_condition(trial.api::<MiniCluster>(), name, reached);
    tokio::time::timeout(DEADLINE, reached)
        .await
        .with_context(|| format!("to be {moment:?}"))??;
    Ok(())
}

/// Changes the specification of what may be gone.
async fn edit(trial: &Trial, name: &str, change: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": change }));
    match trial.api::<MiniCluster>().patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        edited => edited.map(drop).with_context(|| format!("editing {name}: {change}")),
    }
}

/// Deletes what may be gone.
async fn delete(trial: &Trial, name: &str, parameters: &DeleteParams) -> Result<()> {
    match trial.api::<MiniCluster>().delete(name, parameters).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop).with_context(|| format!("deleting {name}")),
    }
}

/// Waits until it has ended, as its command did. A suspension takes the pod, and its code with it, of a command that
/// has just ended: then the Job still has it.
async fn ended(trial: &Trial, name: &str, life: &Life) -> Result<()> {
    let cluster = trial.await_finished(name, DEADLINE).await?;
    let Work::Ends(expected) = life.work else { return Ok(()) };
    let kind = if expected == 0 { "Complete" } else { "Failed" };
    let (status, reason, message) = condition(&cluster, kind).context("no condition")?;
    let code = cluster.status.as_ref().and_then(|status| status.exit_code);
    let told = message.contains(&format!("exit code {expected} ")) || expected == 0;
    let fits = code == Some(expected) || (code.is_none() && told);
    ensure!(status == "True" && fits, "ended with {code:?}: {kind} {status}: {reason}: {message}");
    Ok(())
}

/// What there is in the namespace that is not in every one.
fn left(plane: &Plane<'_>, trial: &Trial) -> Result<BTreeSet<String>> {
    let kinds = "miniclusters,jobs,pods,services,configmaps,secrets,endpointslices,leases";
    let names = plane.kubectl(&["get", kinds, "-n", trial.namespace(), "-oname"])?;
    let own = names.lines().filter(|name| *name != "configmap/kube-root-ca.crt");
    Ok(own.map(str::to_owned).collect())
}

/// Which pod the operator is, and how often it was started again.
async fn restarts(plane: &Plane<'_>, trial: &Trial) -> Result<(Option<String>, i32)> {
    let pod = plane.operator_pod(trial).await?;
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let restarts = statuses.into_iter().flatten().map(|status| status.restart_count).sum();
    Ok((pod.uid(), restarts))
}
