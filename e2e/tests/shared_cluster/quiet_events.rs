//! Good runs leave hardly any Warning Events.

use crate::prelude::*;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;

/// How many runs there are, and how many at a time.
const RUNS: usize = 100;
const AT_A_TIME: usize = 4;
/// How many Warning Events all runs may leave. A probe can meet the end of a container, which the kubelet notices once a
/// second; avoiding that would delay every run.
const WARNINGS: usize = 3;
/// How long the commands take, in seconds. Runs of real Flux take at least a second. A shorter run would end before its
/// first probe, which would leave a Warning Event.
const COMMANDS: [&str; 7] = ["1.5", "1.8", "2.1", "2.4", "2.7", "3", "4"];

/// Whether the kubelet has noticed that the pod's containers have ended, so that it sends no more probes.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the Event is about the run, and not about a busy machine. On a busy machine the API server sees a new Service
/// before the Service's address is in its list, and reports a repair that is not needed (`syncService` in repairip.go of
/// Kubernetes); and the kubelet waits a second for its first copy of a ConfigMap or Secret before it tries again
/// (`watch_based_manager.go`).
fn is_warning(event: &Event) -> bool {
    let is = |text: &Option<String>, expected: &str| text.as_deref() == Some(expected);
    let message = event.message.as_deref().unwrap_or_default();
    let of_repair = is(&event.reporting_component, "ipallocator-repair-controller")
        && is(&event.reason, "ClusterIPNotAllocated");
    let of_first_copy = is(&event.reason, "FailedMount")
        && message.contains(": failed to sync ")
        && message.ends_with(" cache: timed out waiting for the condition");
    is(&event.type_, "Warning") && !of_repair && !of_first_copy
}

async fn runs_well(trial: &Trial, number: usize) -> Result<()> {
    let (name, seconds) = (format!("quiet{number}"), COMMANDS[number % COMMANDS.len()]);
    let run = trial.run(&name, "size: 2", &format!("command: 'sleep {seconds}'")).await?;
    run.complete().await?;
    let all_ended = async || Ok(trial.pods(&name).await?.iter().all(has_ended));
    until_true("the end of all pods", all_ended).await
}

#[test]
#[ignore = "needs a cluster"]
fn a_hundred_good_runs_leave_next_to_no_warning() {
    trial("quiet", async |trial| {
        let runs = stream::iter(0..RUNS).map(|number| Ok(runs_well(trial, number)));
        runs.try_buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        let events = trial.api::<Event>().list(&ListParams::default()).await?.items;
        ensure!(!events.is_empty(), "there are no Events at all");
        let warnings: Vec<&Event> = events.iter().filter(|event| is_warning(event)).collect();
        let found = format!("{} Warning Events of {RUNS} good runs", warnings.len());
        progress::log(&found);
        ensure!(warnings.len() <= WARNINGS, "{found}: {warnings:#?}");
        Ok(())
    });
}
