//! A queue (Kueue): it suspends the Jobs that name it, and resumes them when their turn comes.
//!
//! After `pkg/controller/jobs/job` of Kueue 0.15: its webhook suspends a Job that is created, its reconciler one that
//! runs and is not admitted. Then the reconciler removes the start time of the Job, and from its template the nodes
//! that the queue gave it. It never has quota for more pods than a Job needs at least.

use super::objects::{is_finished, is_going, is_queued, is_suspended};
use super::store::Store;
use serde_json::{Value, json};

/// Annotation of a Job that the queue has not stopped completely.
const STOPPING: &str = "kueue.x-k8s.io/stopping";
/// Label of the nodes on which admitted Jobs run.
const FLAVOUR: &str = "flavour";

/// Annotation of a Job: with how few pods it may start.
const LEAST: &str = "kueue.x-k8s.io/job-min-parallelism";
/// Annotation of a Job that has fewer pods than its Workload, with the number of those. Kueue reads its Workload.
const COUNT: &str = "kueue.x-k8s.io/of-workload";

/// Looks at each Job once, and admits those that wait where it `admits`.
pub fn direct(store: &mut Store, admits: bool) {
    let waits_or_runs = |job: &Value| is_queued(job) && !is_going(job) && !is_finished(job);
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
            // The server refuses it where somebody else has just suspended the Job: the next look tries again.
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
    // The server refuses it as long as the Job has pods: the next look tries again.
    let _ = store.merge(path, &end);
}
