//! Replaced pods: the simulated Job controller replaces pods by the Job's rules, whose pauses take a quarter of an hour.

use crate::prelude::*;
use flux_testkit::agent::End;
use flux_testkit::kubelet::{Kubelet, Kubernetes};
use flux_testkit::objects::{is_finished, is_over, is_ready};
use tokio::time::Instant;

/// Longer than the longest pause.
const PATIENCE: Duration = Duration::from_mins(15);

/// Lets Job controller and node act each second until `look` returns a value; then lets the operator reconcile.
async fn until<T>(kubernetes: &mut Kubernetes, world: &World, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        world.server.with(|memory| kubernetes.act(&mut memory.store));
        if let Some(found) = look() {
            world.reconcile().await.unwrap();
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {:?}", world.status());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Kills the runner of the worker with this index when it is ready, as the kernel does; returns its pod's name and
/// how long it took to be ready.
async fn kill(
    kubernetes: &mut Kubernetes,
    world: &World,
    index: u64,
    reason: &str,
) -> (String, u64) {
    let begun = Instant::now();
    let path = until(kubernetes, world, || ready(world, index)).await;
    let waited = begun.elapsed().as_secs();
    world.server.with(|memory| Kubelet::end(&mut memory.store, &path, &End::killed()));
    world.server.change(&path, |pod| {
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = json!(reason);
    });
    (path.rsplit_once('/').unwrap().1.to_owned(), waited)
}

/// The path of the pod of this index, if one is ready.
fn ready(world: &World, index: u64) -> Option<String> {
    let is_ready = |pod: &Value| index_of(pod) == index && is_ready(pod) && !is_over(pod);
    world.server.with(|memory| memory.store.select(PODS, is_ready).pop()).map(|(path, _)| path)
}

/// Lets the kubelet refuse the next pod of this index.
async fn refuse(kubernetes: &mut Kubernetes, world: &World, index: u64) {
    let starts = |pod: &Value| {
        let has_node = !pod["spec"]["nodeName"].is_null();
        index_of(pod) == index && pod["status"]["phase"] == "Pending" && has_node
    };
    let next = || world.server.with(|memory| memory.store.select(PODS, starts).pop());
    let (path, _) = until(kubernetes, world, next).await;
    world.server.with(|memory| Kubelet::refuse(&mut memory.store, &path));
    world.reconcile().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_runs_after_leads_that_were_never_started() {
    let world = World::reconciled(&json!({ "size": 2 })).await;
    let mut kubernetes = Kubernetes::default();
    for _ in 0..2 {
        refuse(&mut kubernetes, &world, 0).await;
        assert_eq!(world.status().state, Some(State::Pending));
        let (_, reason, message) = world.condition("Progressing");
        assert!(reason == "PodsRefused" && message.contains("OutOfcpu"), "{reason}: {message}");
        assert!(message.contains("spec.containers[].resources"), "{message}");
    }
    kill(&mut kubernetes, &world, 0, "Error").await;
    until(&mut kubernetes, &world, || world.server.get(JOB).filter(is_finished)).await;
    assert_eq!(world.status().state, Some(State::Failed));
    assert_eq!(kubernetes.kubelet.runs.len(), 1, "the command ran once");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_pods_stay_refused_fails_with_the_cause() {
    for index in 0..2 {
        let world = World::reconciled(&json!({ "size": 2 })).await;
        let mut kubernetes = Kubernetes::default();
        for _ in 0..7 {
            refuse(&mut kubernetes, &world, index).await;
        }
        until(&mut kubernetes, &world, || world.server.get(JOB).filter(is_finished)).await;
        let (_, reason, message) = world.condition("Failed");
        assert!(
            reason == "OutOfcpu" && message.contains("spec.containers[]"),
            "{reason}: {message}"
        );
    }
}

/// The Job replaces a lead with such a code after ten seconds, unless the operator ends the Job before.
#[tokio::test(start_paused = true)]
async fn a_command_that_ends_with_the_code_of_a_lost_pod_has_one_lead() {
    for code in [2, 137, 255] {
        let world = World::reconciled(&json!({ "size": 2 })).await;
        let mut kubernetes = Kubernetes::default();
        let path = until(&mut kubernetes, &world, || ready(&world, 0)).await;
        world.server.with(|memory| Kubelet::end(&mut memory.store, &path, &End::of_command(code)));
        world.reconcile().await.unwrap();
        assert_eq!(world.status().state, Some(State::Failed));
        assert_eq!(world.status().exit_code, Some(code));
        // The Job controller counts the pod, and the watch of the Job brings that.
        world.reconcile().await.unwrap();
        until(&mut kubernetes, &world, || world.server.get(JOB).filter(is_finished)).await;
        let leads = world.server.with(|memory| memory.store.select(PODS, |pod| index_of(pod) == 0));
        assert_eq!(leads.len(), 1);
        assert_eq!(world.condition("Failed").1, "CommandFailed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_worker_is_replaced_six_times() {
    let world = World::reconciled(&json!({ "size": 3 })).await;
    let mut kubernetes = Kubernetes::default();
    // A worker that is killed once does not fail the Job.
    kill(&mut kubernetes, &world, 2, "Error").await;
    let mut kills = Vec::new();
    for _ in 0..7 {
        assert_eq!(world.condition("Failed").0, "False");
        kills.push(kill(&mut kubernetes, &world, 1, "OOMKilled").await);
    }
    let pauses: Vec<u64> = kills.iter().skip(1).map(|(_, waited)| *waited).collect();
    let doubled: Vec<u64> = (0..6).map(|times| 10 << times).collect();
    assert!(pauses.iter().zip(&doubled).all(|(pause, least)| pause >= least), "{pauses:?}");
    until(&mut kubernetes, &world, || world.server.get(JOB).filter(is_finished)).await;
    assert_eq!(world.status().state, Some(State::Failed));
    let (_, reason, message) = world.condition("Failed");
    let (last, _) = kills.last().unwrap();
    assert_eq!(reason, "OOMKilled");
    assert!(
        message.starts_with(&format!("pod {last}: container hello ran out of the memory that its limits allow (exit code 137)")),
        "{message}"
    );
    assert_eq!(kubernetes.kubelet.runs.len(), 1, "the command ran once");
}
