//! Twenty MiniClusters of all kinds come and go at the same time, and leave nothing.

use crate::prelude::*;
use e2e::product::install::{NAME, NAMESPACE};
use futures::future::try_join_all;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;

const COUNT: usize = 20;
/// The lists have different lengths, so that each MiniCluster is another mixture. Pods that fit no node do not cost the
/// node anything, and cost the control plane the same.
const WORK: [Work; 7] = [
    Work::Ends(0),
    Work::Nowhere,
    Work::Ends(7),
    Work::Nowhere,
    Work::People,
    Work::Nowhere,
    Work::Ends(0),
];
const SIZES: [u32; 11] = [1, 2, 1, 1, 1, 3, 1, 1, 2, 1, 1];
/// The moment of an action: at once, when the operator has answered, or when the MiniCluster is settled.
const MOMENTS: [Option<Moment>; 3] = [None, Some(|_, _| true), Some(is_settled)];
const ENDS: [End; 4] = [End::Deleted, End::Ended, End::Expires, End::DeletedInForeground];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Ends(i32),
    People,
    Nowhere,
}

type Moment = fn(Work, State) -> bool;

fn is_settled(work: Work, state: State) -> bool {
    let waits = work == Work::Nowhere && state == State::Pending;
    waits || [State::Running, State::Suspended, State::Complete, State::Failed].contains(&state)
}

/// How a MiniCluster is removed. One that expires is removed when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    DeletedInForeground,
    Ended,
    Expires,
}

/// One of the MiniClusters, and its fate.
#[derive(Debug)]
struct Life {
    work: Work,
    spec: Value,
    /// What somebody changes in its specification, one after the other.
    edits: Vec<Value>,
    moment: Option<Moment>,
    end: End,
}

#[test]
#[ignore = "needs root"]
fn twenty_miniclusters_come_and_go() {
    on_a_cluster(&options("random", Network::default()), |environment| {
        case(environment, "random", nothing_is_left_of_twenty_that_come_and_go)
    });
}

/// Checks that the operator has not restarted, and that its metrics do not name removed MiniClusters.
async fn nothing_is_left_of_twenty_that_come_and_go(trial: &Trial) -> Result<()> {
    let before = trial.operator_pods()?;
    let lives = (0..COUNT).map(async |index| {
        let (name, life) = (format!("life-{index}"), Life::new(index));
        let run = trial.start(&name, &life.spec.to_string()).await?;
        life.live(trial, &run).await.with_context(|| format!("{name}: {life:?}"))
    });
    try_join_all(lives).await?;
    let mut left = String::new();
    let gone = wait_for("everything to be gone", async || {
        let kinds = "miniclusters,jobs,pods,services,configmaps,secrets,endpointslices,leases";
        left = trial.kubectl(&["get", kinds, "-oname"])?;
        Ok((left.trim() == "configmap/kube-root-ca.crt").then_some(()))
    });
    gone.await.with_context(|| format!("left: {left}"))?;
    let after = trial.operator_pods()?;
    ensure!(before == after, "the operator was {before:?} and is {after:?}");
    let service = format!("services/{NAME}-metrics:metrics/proxy/metrics");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{service}");
    let metrics = trial.kubectl(&["get", "--raw", &path])?;
    let counted = metrics.contains("flux_operator_reconcile_runs_total");
    ensure!(counted && !metrics.contains(trial.namespace()), "{metrics}");
    ensure!(!metrics.contains("category=\"Internal\""), "it has panicked: {metrics}");
    Ok(())
}

impl Life {
    fn new(index: usize) -> Self {
        let work = WORK[index % WORK.len()];
        let end = ENDS[index % ENDS.len()];
        let mut spec = json!({
            "size": SIZES[index % SIZES.len()], "maxSize": 3,
            "containers": [{ "image": "ubuntu:24.04" }],
            "interactive": !matches!(work, Work::Ends(_)),
        });
        if let Work::Ends(code) = work {
            spec["containers"][0]["command"] = json!(format!("echo once; exit {code}"));
        }
        if work == Work::Nowhere {
            spec["pod"] = json!({ "nodeSelector": { "e2e.invalid/none": "none" } });
        }
        let other = json!({
            "name": "beside", "image": "ubuntu:24.04", "runFlux": false, "command": "sleep 600",
            "ports": [8080],
        });
        // One in four has a sidecar with a Service, another has the pod of `services`.
        match index / 2 % 4 {
            0 => spec["containers"] = json!([spec["containers"][0], other]),
            1 => spec["services"] = json!([other]),
            _ => {}
        }
        if end == End::Expires {
            spec["ttlSecondsAfterFinished"] = json!(0);
        }
        let suspend = |suspend: bool| json!({ "suspend": suspend });
        let edits = match index % 5 {
            1 => vec![json!({ "size": 3 })],
            2 => vec![suspend(true), suspend(false)],
            4 => vec![suspend(true)],
            _ => vec![],
        };
        Self { work, spec, edits, moment: MOMENTS[index % MOMENTS.len()], end }
    }

    async fn live(&self, trial: &Trial, run: &Instance<'_>) -> Result<()> {
        for edit in &self.edits {
            self.reach(trial, run).await?;
            change(trial, run, edit).await?;
        }
        let by_itself = [End::Ended, End::Expires].contains(&self.end);
        if let (Work::Ends(code), true) = (self.work, by_itself) {
            change(trial, run, &json!({ "suspend": false })).await?;
            if self.end == End::Expires {
                return Ok(());
            }
            // A suspension deletes the pod of a command that has just ended, and with the pod its exit code.
            let cluster = run.finished().await?;
            let found = cluster.status.as_ref().and_then(|status| status.exit_code);
            let ended = is_true(&cluster, if code == 0 { "Complete" } else { "Failed" });
            ensure!(ended && found.is_none_or(|it| it == code), "it ended: {:?}", cluster.status);
        } else {
            self.reach(trial, run).await?;
        }
        let in_foreground = self.end == End::DeletedInForeground;
        let cascade = if in_foreground { "--cascade=foreground" } else { "--cascade=background" };
        let delete = ["delete", "minicluster", run.name, "--wait=false", "--ignore-not-found"];
        run.kubectl(&[&delete[..], &[cascade]].concat()).map(drop)
    }

    /// Waits for the moment, or until the MiniCluster is gone.
    async fn reach(&self, trial: &Trial, run: &Instance<'_>) -> Result<()> {
        let Some(has_come) = self.moment else { return Ok(()) };
        let state = |cluster: &MiniCluster| cluster.status.as_ref()?.state;
        let reached = |cluster: Option<&MiniCluster>| {
            cluster.is_none_or(|it| state(it).is_some_and(|state| has_come(self.work, state)))
        };
        let reached = await_condition(trial.api::<MiniCluster>(), run.name, reached);
        tokio::time::timeout(DEADLINE, reached).await.context("waiting for its moment")??;
        Ok(())
    }
}

/// Changes the specification of a MiniCluster that may be gone.
async fn change(trial: &Trial, run: &Instance<'_>, change: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": change }));
    let clusters = trial.api::<MiniCluster>();
    match clusters.patch(run.name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        answer => answer.map(drop).map_err(Into::into),
    }
}
