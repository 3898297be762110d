//! MiniClusters that wait in a queue of the real Kueue. On a cluster of its own, because Kueue answers for every Job.

use crate::prelude::*;
use e2e::examples::run::run;
use std::collections::BTreeSet;

const QUEUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/own_clusters/queue.yaml");

/// How much of a quota a pod needs.
const SHARE: &str = "resources: {requests: {cpu: 100m}}";

async fn make_queues(trial: &Trial) -> Result<()> {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", QUEUE];
    // Kueue makes the certificate of its webhooks itself, and the API server gets it a moment later. An earlier case may
    // have changed a quota.
    wait_for("the queues to be made", async || Ok(trial.kubectl(&apply).ok())).await.map(drop)
}

/// Applies a MiniCluster with this specification, and with these labels and annotations.
async fn labelled<'run>(
    trial: &'run Trial,
    name: &'run str,
    labels: &str,
    annotations: &str,
    spec: &str,
) -> Result<Instance<'run>> {
    let metadata = format!("name: {name}, labels: {{{labels}}}, annotations: {{{annotations}}}");
    let kind = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster";
    trial.apply(&format!("{kind}\nmetadata: {{{metadata}}}\nspec: {spec}\n")).await?;
    Ok(trial.named(name))
}

/// Applies a MiniCluster with these labels, each of whose two pods requests half of the quota. Without a command it stays
/// up.
async fn queued<'run>(
    trial: &'run Trial,
    name: &'run str,
    labels: &str,
    command: &str,
) -> Result<Instance<'run>> {
    let fields = format!("size: 2, interactive: {}", command.is_empty());
    let labels = format!("kueue.x-k8s.io/queue-name: team{labels}");
    let spec = specification(&[&fields], &format!("{SHARE}{command}"));
    labelled(trial, name, &labels, "", &spec).await
}

async fn uids(trial: &Trial, name: &str) -> Result<BTreeSet<Option<String>>> {
    Ok(trial.pods(name).await?.into_iter().map(|pod| pod.metadata.uid).collect())
}

async fn waits_in(run: &Instance<'_>, queue: &str) -> Result<()> {
    let condition =
        run.await_condition("Suspended", &format!("waits in the queue {queue}; ")).await?;
    ensure!(condition.status == "True" && condition.reason == "InQueue", "{condition:?}");
    Ok(())
}

async fn one_after_the_other(trial: &Trial) -> Result<()> {
    make_queues(trial).await?;
    let first = queued(trial, "first", "", "").await?;
    first.state(State::Running).await?;
    let selector = trial.pods("first").await?.into_iter().filter_map(|pod| pod.spec?.node_selector);
    let flavoured = selector.filter(|it| it.get("e2e.example/pool").is_some_and(|it| it == "one"));
    ensure!(flavoured.count() == 2, "the pods do not have the node selector of the flavour");
    keeps_its_size(trial, &first).await?;

    let second = queued(trial, "second", "", ", command: echo hello").await?;
    waits_in(&second, "team").await?;
    ensure!(trial.pods("second").await?.is_empty(), "it has pods");

    let urgent = ", kueue.x-k8s.io/priority-class: urgent";
    let third = queued(trial, "third", urgent, ", command: echo hello").await?;
    waits_in(&first, "team").await?;
    third.complete().await?;
    // The older of two waiting MiniClusters comes first.
    first.state(State::Running).await?;
    waits_in(&second, "team").await?;
    first.delete().await?;
    second.complete().await.map(drop)
}

/// The operator refuses to change the size of an admitted MiniCluster, and no pod is stopped.
async fn keeps_its_size(trial: &Trial, run: &Instance<'_>) -> Result<()> {
    let before = uids(trial, run.name).await?;
    run.edit(&json!({ "size": 1 }))?;
    let condition =
        run.await_condition("Progressing", "the queue team has admitted 2 pods").await?;
    ensure!(condition.reason == "ChangeRefused", "{condition:?}");
    run.edit(&json!({ "size": 2 }))?;
    not_refused(run).await?;
    ensure!(uids(trial, run.name).await? == before, "pods were stopped");
    Ok(())
}

const ELASTIC: &str = "kueue.x-k8s.io/elastic-job: 'true'";
const ELASTIC_QUEUE: &str = "kueue.x-k8s.io/queue-name: elastic";

/// From two pods to three, as an autoscaler asks, to four of which there is quota for three, and back to two, as
/// `kubectl scale` asks: no pod is replaced, and jobs on ranks that stay and on one that goes end well.
async fn grows_and_shrinks(trial: &Trial) -> Result<()> {
    const TASK: &str = "until test -e /tmp/go; do sleep 0.1; done";
    make_queues(trial).await?;
    let fields = "size: 2, maxSize: 4, interactive: true, flux: {drainSeconds: 120}";
    let spec = specification(&[fields], SHARE);
    let run = labelled(trial, "grows", ELASTIC_QUEUE, ELASTIC, &spec).await?;
    let scale = |size: u32| {
        run.kubectl(&["scale", "minicluster/grows", &format!("--replicas={size}")]).map(drop)
    };
    run.running(2).await?;
    let two = uids(trial, run.name).await?;
    run.job("2", TASK).await?;
    // The autoscaler wants at least three pods, whatever their load.
    run.kubectl(&["autoscale", "minicluster", run.name, "--min=3", "--max=4"])?;
    run.running(3).await?;
    run.kubectl(&["delete", "hpa", "grows"])?;
    let three = uids(trial, run.name).await?;
    ensure!(two.is_subset(&three), "pods were replaced: {two:?}, {three:?}");
    run.go_all(2).await?;
    let jobs = async |expected: &[&str]| {
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        let holds = async || Ok(run.jobs().await?.lines().collect::<BTreeSet<_>>() == expected);
        until_true(&format!("jobs {expected:?}"), holds).await
    };
    jobs(&["COMPLETED"]).await?;

    run.flux(&["submit", "-N3", "-n3", "sh", "-c", TASK]).await?;
    jobs(&["COMPLETED", "RUN"]).await?;
    scale(4)?;
    // The reason is `Starting` for the first moments.
    let waits = async || {
        let condition = run.await_condition("Progressing", "scheduling gates").await?;
        Ok(condition.reason == "Waiting")
    };
    until_true("the reason Waiting", waits).await?;
    ensure!(three.is_subset(&uids(trial, run.name).await?), "pods were replaced");
    let worker = run.pod(2).await?;
    scale(2)?;
    until_true("the drain", async || Ok(!run.drained().await?.is_empty())).await?;
    run.go(2).await?;
    run.kubectl(&["wait", "pod", &worker.name_any(), "--for=delete", "--timeout=3m"])?;
    jobs(&["COMPLETED"]).await?;
    run.running(2).await?;
    ensure!(uids(trial, run.name).await? == two, "pods were replaced");
    // After all changes one Workload of two pods is left.
    until_true("a Workload of two pods", async || Ok(unfinished(&run)? == [2])).await
}

/// Flux's queue decides how many pods there should be, and Kueue's queue whether there is quota for them.
async fn grows_by_demand(trial: &Trial) -> Result<()> {
    make_queues(trial).await?;
    let fields = "size: 1, interactive: true, autoscale: {maxSize: 3, idleSeconds: 2}, \
                  flux: {drainSeconds: 2}";
    let spec = specification(&[fields], SHARE);
    let run = labelled(trial, "demand", ELASTIC_QUEUE, ELASTIC, &spec).await?;
    run.running(1).await?;
    let one = uids(trial, run.name).await?;
    let hosts = run.flux(&["run", "-N3", "-n3", "hostname"]).await?;
    ensure!(hosts.lines().count() == 3, "{hosts}");
    run.running(1).await?;
    let goes = async || Ok(uids(trial, run.name).await? == one);
    until_true("the deletion of pods that no job needs", goes).await
}

/// The numbers of pods of the Workloads that are not finished.
fn unfinished(run: &Instance<'_>) -> Result<Vec<u64>> {
    let list: Value =
        serde_json::from_str(&run.kubectl(&["get", "workloads", "--output=json"])?)?;
    let goes_on = |workload: &&Value| {
        let mut conditions = workload["status"]["conditions"].as_array().into_iter().flatten();
        !conditions.any(|it| it["type"] == "Finished" && it["status"] == "True")
    };
    let workloads = list["items"].as_array().into_iter().flatten().filter(goes_on);
    Ok(workloads.filter_map(|it| it["spec"]["podSets"][0]["count"].as_u64()).collect())
}

/// With quota for two of three pods the command runs on two, and when it begins again with more quota, on three.
async fn starts_with_fewer(trial: &Trial) -> Result<()> {
    make_queues(trial).await?;
    let command = "command: 'sh -c \"until test -e /tmp/go; do sleep 0.1; done; hostname\"'";
    let spec = specification(&["size: 3, minSize: 2, tasks: 0"], &format!("{SHARE}, {command}"));
    let run = labelled(trial, "fewer", "kueue.x-k8s.io/queue-name: part", "", &spec).await?;
    run.await_condition("Ready", "the queue part has admitted 2 of 3 pods").await?;
    let cluster = run.running(2).await?;
    ensure!(cluster.status.is_some_and(|status| status.size == 2), "its status has another size");
    let nodes = run.flux(&["jobs", "-no", "{nnodes}"]).await?;
    ensure!(nodes == "2", "the command has {nodes} nodes");
    let two = uids(trial, run.name).await?;
    run.edit(&json!({ "maxSize": 4, "size": 4 }))?;
    run.await_condition("Progressing", "the queue part has admitted 2 pods").await?;
    run.edit(&json!({ "maxSize": null, "size": 3 }))?;
    not_refused(&run).await?;
    ensure!(two.len() == 2 && uids(trial, run.name).await? == two, "pods were replaced");

    let workload = run.kubectl(&["get", "workloads", "--output=name"])?;
    run.patch(workload.trim(), &json!({ "spec": { "active": false } }))?;
    waits_in(&run, "part").await?;
    let quota = [
        json!({ "op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "value": "300m" }),
    ];
    let quota = json!(quota).to_string();
    run.kubectl(&["patch", "clusterqueue", "part", "--type=json", "--patch", &quota])?;
    run.patch(workload.trim(), &json!({ "spec": { "active": true } }))?;
    run.running(3).await?;
    run.go_all(3).await?;
    run.complete().await?;
    run.each_once(&["fewer-0", "fewer-1", "fewer-2"]).await
}

/// Pods that have to be in one rack come to one rack, or wait.
async fn in_one_rack(trial: &Trial) -> Result<()> {
    make_queues(trial).await?;
    let (queue, topology) = (
        "kueue.x-k8s.io/queue-name: racks",
        "kueue.x-k8s.io/podset-required-topology: e2e.example/rack",
    );
    let spec = |container: &str| specification(&["size: 2, interactive: true"], container);
    let near = labelled(trial, "near", queue, topology, &spec(SHARE)).await?;
    near.running(2).await?;
    let selector = trial.pods("near").await?.into_iter().filter_map(|pod| pod.spec?.node_selector);
    let placed = selector.filter(|it| it.get("e2e.example/rack").is_some_and(|it| it == "r1"));
    ensure!(placed.count() == 2, "the pods were not placed by their rack");
    let far = spec("resources: {requests: {cpu: '400'}}");
    let far = labelled(trial, "far", queue, topology, &far).await?;
    waits_in(&far, "racks").await
}

/// Waits until no change is refused any more, and fails unless the MiniCluster runs.
async fn not_refused(run: &Instance<'_>) -> Result<()> {
    let cluster = run
        .until("of the size that was admitted", |cluster| {
            condition(cluster, "Progressing")
                .is_some_and(|condition| condition.reason != "ChangeRefused")
        })
        .await?;
    let state = cluster.status.and_then(|status| status.state);
    ensure!(state == Some(State::Running), "{state:?}");
    Ok(())
}

#[test]
#[ignore = "needs root"]
fn kueue_admits_preempts_and_resumes_miniclusters() {
    on_a_cluster(&options("kueue", Network::default()), |environment| {
        e2e::schedulers::install_kueue(environment)?;
        let labels = ["e2e.example/pool=one", "e2e.example/rack=r1"];
        environment.kubectl(&[&["label", "nodes", "--all"], &labels[..]].concat())?;
        case(environment, "queue", one_after_the_other)?;
        run("kueue", None, environment)?;
        case(environment, "elastic", grows_and_shrinks)?;
        case(environment, "demand", grows_by_demand)?;
        case(environment, "part", starts_with_fewer)?;
        case(environment, "racks", in_one_rack)
    });
}
