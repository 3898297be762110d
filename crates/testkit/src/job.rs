//! The Job controller, as far as the operator and its Jobs have to do with it: it makes the pods of an
//! Indexed Job, counts how they end, makes lost ones again after a pause, deletes those of a suspended Job, and
//! writes the status of the Job.
//!
//! After `syncJob` in `pkg/controller/job/job_controller.go` of Kubernetes 1.33, and of 1.37 where it suspends.

use super::job_policy::{Verdict, verdict};
use super::objects::{
    condition, index_of, is_finished, is_going, is_over, is_ready, is_suspended, is_true,
    set_condition,
};
use super::store::Store;
use flux_contract::labels;
use json_patch::merge;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Finalizer of a pod that is not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Pause before the first pod of an index is made again; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// Condition of a Job that was suspended once.
const SUSPENDED: &str = "Suspended";

#[derive(Default)]
pub struct JobController {
    /// By the uid of each Job.
    counts: BTreeMap<String, Counts>,
    /// uids of the pods that suspensions have deleted, which are counted nowhere.
    pub suspended_pods: BTreeSet<String>,
}

/// What the controller has counted of one Job.
#[derive(Default)]
struct Counts {
    /// Pods that were counted, by uid.
    counted: BTreeSet<String>,
    indexes: BTreeMap<u64, Index>,
}

#[derive(Default, Clone)]
struct Index {
    failed: u32,
    ignored: u32,
    succeeded: bool,
    /// When the last pod was found to have failed.
    last: Option<String>,
}

/// How a Job ends: its last condition.
struct JobEnd {
    type_: &'static str,
    reason: String,
    message: String,
}

impl JobEnd {
    fn new(type_: &'static str, reason: &str, message: &str) -> Self {
        Self { type_, reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// A Job and its pods when the controller looks at them.
struct Observed {
    path: String,
    job: Arc<Value>,
    pods: Vec<(String, Arc<Value>)>,
}

impl JobController {
    /// Looks at each Job of a MiniCluster once. Other Jobs have none of its annotations.
    pub fn sync(&mut self, store: &mut Store) {
        let is_of_operator = |object: &Value| {
            object["kind"] == "Job"
                && object["metadata"]["annotations"]["flux-framework.org/fields"].is_string()
        };
        for (path, job) in store.select("", is_of_operator) {
            let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
            let pods = pods_of(store, &path, &uid);
            let observed = Observed { path, job, pods };
            let suspended = self.counts.entry(uid).or_default().sync(store, &observed);
            self.suspended_pods.extend(suspended);
        }
        release_orphans(store);
    }
}

impl Counts {
    /// Returns the uids of the pods that are deleted because the Job is suspended.
    fn sync(&mut self, store: &mut Store, observed: &Observed) -> Vec<String> {
        let Observed { path, job, pods } = observed;
        let mut suspended = Vec::new();
        if is_going(job) {
            return suspended;
        }
        if is_finished(job) {
            end_pods(store, pods);
            return suspended;
        }
        let verdict = self.count(store, observed);
        // A decision stays, however the pods end that are left.
        let target = ending(job).or(verdict).or_else(|| self.end_of(observed, store));
        let mut status = self.status(observed, store);
        if let Some(JobEnd { type_, reason, message }) = target {
            end_pods(store, pods);
            let before = if type_ == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
            let (words, now) = ([reason.as_str(), message.as_str()], store.clock.now());
            set_condition(&mut status, before, true, words, now);
            if pods.iter().all(|(_, pod)| is_over(pod)) {
                set_condition(&mut status, type_, true, words, now);
                if type_ == "Complete" {
                    status["completionTime"] = json!(now.to_string());
                }
            }
        } else if is_suspended(job) {
            suspended = delete_active(store, pods, |_| true);
            note_suspension(&mut status, true, store);
        } else {
            self.manage(store, observed);
            note_suspension(&mut status, false, store);
        }
        store.set_status(path, status);
        suspended
    }

    /// Counts the pods that have ended. Returns the end of the Job, where its failure policy ends it.
    fn count(&mut self, store: &mut Store, observed: &Observed) -> Option<JobEnd> {
        let mut end = None;
        for (path, pod) in observed.pods.iter().filter(|(_, pod)| is_over(pod)) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if pod["status"]["phase"] == "Failed"
                && verdict(&observed.job["spec"], pod) == Verdict::FailJob
            {
                // Pods without the finalizer count here, too. (`getFailJobMessage`)
                let message = format!("pod {name} failed the Job by its failure policy");
                end = end.or_else(|| Some(JobEnd::new("Failed", "PodFailurePolicy", &message)));
            }
            if !is_tracked(pod)
                || !self.counted.insert(pod["metadata"]["uid"].as_str().unwrap().to_owned())
            {
                continue;
            }
            store.release(path);
            let is_too_many = Some(index_of(pod)) >= observed.job["spec"]["completions"].as_u64();
            let index = self.indexes.entry(index_of(pod)).or_default();
            if pod["status"]["phase"] == "Succeeded" {
                index.succeeded = true;
            } else {
                index.last = Some(store.clock.now().to_string());
                match verdict(&observed.job["spec"], pod) {
                    Verdict::Count if !is_too_many => index.failed += 1,
                    Verdict::Ignore if !is_too_many => index.ignored += 1,
                    Verdict::Count | Verdict::Ignore | Verdict::FailJob => {}
                }
            }
        }
        end
    }

    /// How the Job ends, if its counted pods end it, or its deadline.
    fn end_of(&self, observed: &Observed, store: &Store) -> Option<JobEnd> {
        let spec = &observed.job["spec"];
        if self.indexes.get(&0).is_some_and(|lead| lead.succeeded) {
            return Some(JobEnd::new("Complete", "SuccessPolicy", "Matched rules at index 0"));
        }
        let limit = |field: &str| spec[field].as_u64();
        let begun = store.clock.since(observed.job["status"]["startTime"].as_str());
        if let Some((deadline, begun)) = limit("activeDeadlineSeconds").zip(begun)
            && !is_suspended(&observed.job)
            && begun.as_secs() >= deadline
        {
            let message = "Job was active longer than specified deadline";
            return Some(JobEnd::new("Failed", "DeadlineExceeded", message));
        }
        let failures = |index: &Index| u64::from(index.failed);
        let all: u64 = self.indexes.values().map(failures).sum();
        // The API server's defaults.
        let most = if spec["backoffLimitPerIndex"].is_null() { 6 } else { u64::MAX };
        if all > limit("backoffLimit").unwrap_or(most) {
            let message = "Job has reached the specified backoff limit";
            return Some(JobEnd::new("Failed", "BackoffLimitExceeded", message));
        }
        if let Some(limit_of_index) = limit("backoffLimitPerIndex") {
            let lost = self.indexes.values().filter(|index| failures(index) > limit_of_index);
            let most = limit("maxFailedIndexes").unwrap_or(u64::MAX);
            return (lost.count() as u64 > most).then(|| {
                JobEnd::new(
                    "Failed",
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the maximal number of failed indexes",
                )
            });
        }
        None
    }

    /// Ends the pods that are too many and makes those that are missing.
    fn manage(&mut self, store: &mut Store, observed: &Observed) {
        let Observed { job, pods, .. } = observed;
        let size = job["spec"]["completions"].as_u64().unwrap_or_default();
        delete_active(store, pods, |pod| index_of(pod) >= size);
        for index in 0..size {
            let runs = pods.iter().any(|(_, pod)| index_of(pod) == index && !is_over(pod));
            let counted = self.indexes.get(&index).cloned().unwrap_or_default();
            let repeats = counted.failed + counted.ignored;
            let pause =
                PAUSE.saturating_mul(1 << repeats.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
            let waits =
                store.clock.since(counted.last.as_deref()).is_some_and(|since| since < pause);
            if !runs && !counted.succeeded && !waits {
                let pod = pod(job, index, store.version, &counted);
                store.create(&collection(&observed.path), &pod).unwrap();
            }
        }
    }

    /// The status of the Job by its pods, as they were when the controller looked at them.
    fn status(&self, observed: &Observed, store: &Store) -> Value {
        let Observed { job, pods, .. } = observed;
        let mut status = job["status"].clone();
        if status["startTime"].is_null() && !is_suspended(job) {
            status["startTime"] = json!(store.clock.now().to_string());
        }
        let count = |of: &dyn Fn(&Value) -> bool| pods.iter().filter(|(_, pod)| of(pod)).count();
        status["active"] = json!(count(&|pod| !is_over(pod) && !is_going(pod)));
        status["terminating"] = json!(count(&|pod| !is_over(pod) && is_going(pod)));
        status["ready"] = json!(count(&|pod| !is_going(pod) && is_ready(pod)));
        status["succeeded"] = json!(self.indexes.values().filter(|index| index.succeeded).count());
        let failures = self.indexes.values().map(|index| index.failed + index.ignored);
        let by_policy = count(&|pod| {
            is_over(pod)
                && verdict(&job["spec"], pod) == Verdict::FailJob
                && pod["status"]["phase"] == "Failed"
        });
        status["failed"] = json!(failures.sum::<u32>() as usize + by_policy);
        status
    }
}

/// Notes whether the Job is suspended. A suspended Job has no start time, and a resumed one starts then.
fn note_suspension(status: &mut Value, suspended: bool, store: &Store) {
    let now = store.clock.now();
    if is_true(status, SUSPENDED) != suspended {
        set_condition(status, SUSPENDED, suspended, ["JobSuspended", "Job suspended"], now);
        let begin = if suspended { Value::Null } else { json!(now.to_string()) };
        merge(status, &json!({ "startTime": begin }));
    }
}

/// The end of a Job that is decided, and whose pods have not all ended.
fn ending(job: &Value) -> Option<JobEnd> {
    let targets = [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")];
    targets.iter().find_map(|(target, end)| {
        let condition = condition(&job["status"], target)?;
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        Some(JobEnd { type_: end, reason: text("reason"), message: text("message") })
    })
}

/// True while the pod is to be counted.
fn is_tracked(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|it| it == TRACKING))
}

/// The pods of the Job at `path` with this uid, the oldest first.
pub fn pods_of(store: &Store, path: &str, uid: &str) -> Vec<(String, Arc<Value>)> {
    let is_owned = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"] == uid;
    let mut pods = store.select(&collection(path), is_owned);
    let made = |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    pods.sort_by_cached_key(|(_, pod)| made(pod));
    pods
}

/// Where the pods of the Job at `path` are.
fn collection(path: &str) -> String {
    let inside = path.rsplit_once('/').unwrap().0;
    inside.replace("/apis/batch/v1", "/api/v1").replace("/jobs", "/pods")
}

/// Deletes the active pods for which `which` is true, without their finalizers, so that they count nowhere. Returns
/// their uids. (`deleteJobPods`)
fn delete_active(
    store: &mut Store,
    pods: &[(String, Arc<Value>)],
    which: impl Fn(&Value) -> bool,
) -> Vec<String> {
    let is_active = |pod: &Value| !is_over(pod) && !is_going(pod);
    let mut uids = Vec::new();
    for (path, pod) in pods.iter().filter(|(_, pod)| is_active(pod) && which(pod)) {
        store.release(path);
        // It may be gone already.
        let _ = store.delete(path, &json!({}));
        uids.push(pod["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    uids
}

fn end_pods(store: &mut Store, pods: &[(String, Arc<Value>)]) {
    for (path, pod) in pods.iter().filter(|(_, pod)| !is_over(pod)) {
        // It may be gone already.
        let _ = store.delete(path, &json!({}));
        // A pod that never had a node has nothing to count.
        if pod["spec"]["nodeName"].is_null() {
            store.release(path);
        }
    }
}

/// Removes the finalizer of pods whose Job is gone.
fn release_orphans(store: &mut Store) {
    let uids: BTreeSet<&str> =
        store.all().values().filter_map(|it| it["metadata"]["uid"].as_str()).collect();
    let orphaned = |object: &Value| {
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        is_tracked(object) && owner.is_some_and(|owner| !uids.contains(owner))
    };
    for (path, _) in store.select("", orphaned) {
        store.release(&path);
    }
}

/// The next pod of `index`, with a new number in its name. It has the parts of the specification that the simulated
/// kubelet reads.
fn pod(job: &Value, index: u64, number: u64, counted: &Index) -> Value {
    let (name, uid) = (&job["metadata"]["name"], &job["metadata"]["uid"]);
    let template = &job["spec"]["template"];
    let mut metadata = json!({
        "name": format!("{}-{index}-{number:05}", name.as_str().unwrap()),
        "namespace": job["metadata"]["namespace"],
        "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
        "finalizers": [TRACKING],
        "ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    metadata["labels"][labels::JOB_NAME] = name.clone();
    metadata["labels"][labels::CONTROLLER_UID] = uid.clone();
    metadata["labels"][labels::COMPLETION_INDEX] = json!(index.to_string());
    if !job["spec"]["backoffLimitPerIndex"].is_null() {
        let count = |number: u32| json!(number.to_string());
        metadata["annotations"]["batch.kubernetes.io/job-index-failure-count"] =
            count(counted.failed);
        metadata["annotations"]["batch.kubernetes.io/job-index-ignored-failure-count"] =
            count(counted.ignored);
    }
    let names = |all: &Value| -> Value {
        all.as_array().into_iter().flatten().map(|it| json!({ "name": it["name"] })).collect()
    };
    let spec = &template["spec"];
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "containers": names(&spec["containers"]), "initContainers": names(&spec["initContainers"]),
            "volumes": spec["volumes"], "restartPolicy": spec["restartPolicy"],
        },
        "status": { "phase": "Pending" },
    })
}
