//! A queue (Kueue): it suspends the Jobs that name it, and resumes them when their turn comes.
//!
//! After `pkg/controller/jobs/job` of Kueue 0.15: its webhook suspends a Job that is made, its reconciler one that
//! runs and is not admitted; then it takes the time away at which the Job began, and from its template the nodes
//! that it was given with its turn. It never has quota for more pods than a Job needs at least.

use super::job::{is_finished, is_suspended};
use super::store::Store;
use flux_api::cluster::QUEUE_LABEL;
use serde_json::{Value, json};

/// Annotation of a Job that the queue has not quite stopped.
const STOPPING: &str = "kueue.x-k8s.io/stopping";
/// Label of the nodes that Jobs run on whose turn it is.
const FLAVOUR: &str = "flavour";

/// Annotation of a Job: with how few pods it may start.
const LEAST: &str = "kueue.x-k8s.io/job-min-parallelism";
/// Annotation of a Job that has fewer pods than its Workload, with the number of those. Kueue reads its Workload.
const COUNT: &str = "kueue.x-k8s.io/of-workload";

/// True for a Job that waits for its turn in a queue.
pub(crate) fn is_queued(object: &Value) -> bool {
    object["kind"] == "Job" && !object["metadata"]["labels"][QUEUE_LABEL].is_null()
}

/// Looks at each Job once; `admits`: it is their turn.
pub(crate) fn direct(store: &mut Store, admits: bool) {
    let waits_or_runs = |job: &Value| {
        is_queued(job) && job["metadata"]["deletionTimestamp"].is_null() && !is_finished(job)
    };
    for (path, job) in store.select("", waits_or_runs) {
        let stops = !job["metadata"]["annotations"][STOPPING].is_null();
        if stops || !(admits || is_suspended(&job)) {
            stop(store, &path);
        } else if admits && is_suspended(&job) {
            let template = json!({ "spec": { "nodeSelector": { FLAVOUR: "on-demand" } } });
            let mut start = json!({ "spec": { "suspend": false, "template": template } });
            if let Some(least) = job["metadata"]["annotations"][LEAST].as_str() {
                let least: u64 = least.parse().unwrap();
                start["spec"]["parallelism"] = json!(least);
                start["spec"]["completions"] = json!(least);
                let count = job["spec"]["parallelism"].to_string();
                start["metadata"]["annotations"] = json!({ COUNT: count });
            }
            // Refused where somebody else has just suspended it: the next look tries again.
            let _ = store.merge(&path, &start);
        }
    }
}

/// Takes the Job from its nodes.
fn stop(store: &mut Store, path: &str) {
    let begin = json!({
        "metadata": { "annotations": { STOPPING: "true" } }, "spec": { "suspend": true },
    });
    store.merge(path, &begin).unwrap();
    store.change_status(path, |status| {
        drop(status.as_object_mut().map(|it| it.remove("startTime")));
    });
    let mut end = json!({
        "metadata": { "annotations": { STOPPING: null, COUNT: null } },
        "spec": { "template": { "spec": { "nodeSelector": null } } },
    });
    let count = store.get(path).and_then(|job| job["metadata"]["annotations"][COUNT].as_str());
    if let Some(count) = count.map(|count| count.parse::<u64>().unwrap()) {
        end["spec"]["parallelism"] = json!(count);
        end["spec"]["completions"] = json!(count);
    }
    // Refused as long as it has pods: the next look tries again.
    let _ = store.merge(path, &end);
}
