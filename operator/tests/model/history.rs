//! Checks the writes of the operator in the order of all changes.

use crate::support::world::{CLUSTER, CONFIG, JOB};
use crate::world::{SOMEBODY, owned_by_cluster};
use flux_testkit::objects::{is_finished, is_queued, is_suspended};
use flux_testkit::store::Event;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) fn note(config_map: &Value) -> Option<Value> {
    let text = config_map["metadata"]["annotations"]["flux-framework.org/ended-run"].as_str()?;
    serde_json::from_str(text).ok()
}

/// The last Job of a MiniCluster.
struct Last {
    uid: Value,
    started: Value,
    /// The hash of its fields, from its annotation.
    fields: Value,
    /// The containers in the specification at its creation.
    containers: Value,
    /// A container has started, or the status or the record has the end.
    begun: bool,
    /// The specification has changed since.
    other_asked: bool,
    /// Somebody has removed the record.
    forgotten: bool,
}

/// Follows all changes in their order.
#[derive(Default)]
pub(crate) struct Story {
    cluster: Value,
    last: Option<Last>,
}

/// The writes that the operator should not have done.
pub(crate) fn faults(history: &[Event]) -> Vec<String> {
    let mut story = Story::default();
    history.iter().filter_map(|event| story.follow(event)).collect()
}

impl Story {
    fn follow(&mut self, event: &Event) -> Option<String> {
        match event.path.as_str() {
            CLUSTER => self.cluster_changed(event.after.as_deref()),
            CONFIG => self.note_changed(event),
            JOB => {
                if let Some(fault) = self.job_changed(event) {
                    return Some(fault);
                }
            }
            _ => self.pod_changed(event),
        }
        if event.by_client { trespass(event) } else { None }
    }

    fn cluster_changed(&mut self, cluster: Option<&Value>) {
        let Some(cluster) = cluster else {
            (self.cluster, self.last) = (Value::Null, None);
            return;
        };
        self.cluster = cluster.clone();
        if let Some(last) = &mut self.last {
            let (status, containers) = (&cluster["status"], &cluster["spec"]["containers"]);
            last.other_asked |= *containers != last.containers;
            let over = status["state"] == "Complete" || status["state"] == "Failed";
            last.begun |= over && status["startTime"] == last.started;
        }
    }

    fn note_changed(&mut self, event: &Event) {
        let Some(last) = &mut self.last else { return };
        let of_last = |note: Value| note["job"] == last.uid;
        let (before, after) =
            (event.before.as_deref().and_then(note), event.after.as_deref().and_then(note));
        let is_noted = after.is_some_and(of_last);
        last.forgotten |= !event.by_client && !is_noted && before.is_some();
        // A disowned ConfigMap has no record of ours.
        last.forgotten |= event.after.as_ref().is_none_or(|it| owned_by_cluster(it).is_none());
    }

    fn pod_changed(&mut self, event: &Event) {
        let (Some(last), Some(pod)) = (&mut self.last, event.after.as_deref()) else { return };
        let is_of_last = pod["metadata"]["ownerReferences"][0]["uid"] == last.uid;
        last.begun |= is_of_last && pod["status"]["phase"] == "Running";
    }

    fn job_changed(&mut self, event: &Event) -> Option<String> {
        match (&event.before, &event.after) {
            (None, Some(job)) if event.by_client => self.job_created(job),
            (Some(before), Some(after)) => {
                if let Some(last) = &mut self.last
                    && last.uid == after["metadata"]["uid"]
                {
                    last.started = after["status"]["startTime"].clone();
                }
                if !event.by_client {
                    return None;
                }
                if is_finished(before) {
                    return Some("a finished Job was written to".to_owned());
                }
                suspension_of_others(before, after).or_else(|| size_of_a_queue(before, after))
            }
            _ => None,
        }
    }

    fn job_created(&mut self, job: &Value) -> Option<String> {
        let containers = self.cluster["spec"]["containers"].clone();
        let fields = job["metadata"]["annotations"]["flux-framework.org/fields"].clone();
        let again = self.last.as_ref().filter(|last| {
            last.begun && last.fields == fields && !last.other_asked && !last.forgotten
        });
        let fault = again.map(|last| {
            format!(
                "what {} ran is run again at version {}",
                last.uid, job["metadata"]["resourceVersion"]
            )
        });
        self.last = Some(Last {
            uid: job["metadata"]["uid"].clone(),
            started: json!("never"),
            fields,
            containers,
            begun: false,
            other_asked: false,
            forgotten: false,
        });
        fault
    }
}

/// Faults in suspending or resuming a Job: only the actor that has suspended it may resume it.
fn suspension_of_others(before: &Value, after: &Value) -> Option<String> {
    if is_suspended(before) == is_suspended(after) {
        return None;
    }
    if is_queued(before) {
        return Some("the operator has taken the place of a queue".to_owned());
    }
    let is_ours = before["metadata"]["annotations"]["flux-framework.org/suspended"].is_string();
    (is_suspended(before) && !is_ours)
        .then(|| "the operator has resumed a Job that somebody else has suspended".to_owned())
}

/// A new size for a Job that a queue has admitted: Kueue would stop it.
fn size_of_a_queue(before: &Value, after: &Value) -> Option<String> {
    let size = |job: &Value| job["spec"]["parallelism"].clone();
    let is_admitted = is_queued(before) && !is_suspended(before);
    (is_admitted && size(before) != size(after))
        .then(|| "the operator has changed the size of what a queue has admitted".to_owned())
}

/// Writes of the operator to objects of others.
fn trespass(event: &Event) -> Option<String> {
    let before = event.before.as_deref()?;
    let is = |kind: &str| before["kind"] == kind;
    let theirs = before["metadata"]["annotations"][SOMEBODY].is_string();
    let owned = before["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
    if theirs || !(owned || is("MiniCluster") || is("Event")) {
        return Some(format!("the operator has written to {} of somebody else", event.path));
    }
    let state = &before["status"]["state"];
    let is_over = state == "Complete" || state == "Failed";
    if is("MiniCluster") && event.after.is_none() && !is_over {
        return Some("the operator has deleted a MiniCluster that has not finished".to_owned());
    }
    let spec = |object: &Option<Arc<Value>>| object.as_ref().map(|object| object["spec"].clone());
    let edited =
        is("MiniCluster") && event.after.is_some() && spec(&event.before) != spec(&event.after);
    edited.then(|| "the operator has edited the specification".to_owned())
}
