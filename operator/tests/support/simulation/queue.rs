//! A queue (Kueue): it suspends the Jobs that name it, and resumes them when their turn comes.
//!
//! After `pkg/controller/jobs/job` of Kueue 0.15: its webhook suspends a Job that is made, its reconciler one that
//! runs and is not admitted; then it takes the time away at which the Job began.

use super::job::{is_finished, is_suspended};
use super::store::Store;
use flux_operator::cluster::QUEUE_LABEL;
use serde_json::{Value, json};
use std::sync::Arc;

/// True for a Job that waits for its turn in a queue.
pub(crate) fn is_queued(object: &Value) -> bool {
    object["kind"] == "Job" && !object["metadata"]["labels"][QUEUE_LABEL].is_null()
}

/// Looks at each Job once; `admits`: it is their turn.
pub(crate) fn direct(store: &mut Store, admits: bool) {
    let other = |job: &Value| {
        is_queued(job)
            && job["metadata"]["deletionTimestamp"].is_null()
            && !is_finished(job)
            && is_suspended(job) == admits
    };
    let jobs = store.all().iter().filter(|(_, object)| other(object));
    let jobs: Vec<(String, Arc<Value>)> =
        jobs.map(|(path, job)| (path.clone(), Arc::clone(job))).collect();
    for (path, job) in jobs {
        store.merge(&path, &json!({ "spec": { "suspend": !admits } })).unwrap();
        if !admits {
            let mut status = job["status"].clone();
            status.as_object_mut().map(|status| status.remove("startTime"));
            store.set_status(&path, status);
        }
    }
}
