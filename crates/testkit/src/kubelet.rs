//! The kubelets: they start the pods, report how they are, and end them when they are deleted.

use super::agent::{Agent, End};
use super::job::JobController;
use super::nodes::Nodes;
use super::objects::{index_of, is_broker, is_going, is_over, is_ready};
use super::pod_status::{containers, disrupt, has_begun, running, set_ready, waiting};
use super::store::Store;
use flux_contract::{Exit, TerminationMessage};
use json_patch::merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs the Jobs of a cluster: the Job controller and the kubelets, as one.
#[derive(Default)]
pub struct Kubernetes {
    pub jobs: JobController,
    pub kubelet: Kubelet,
}

impl Kubernetes {
    /// Lets the Job controller and the kubelets do one thing each.
    pub fn act(&mut self, store: &mut Store) {
        self.jobs.sync(store);
        self.kubelet.step(store);
    }
}

/// A command that a lead has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// uid of the Job.
    pub job: String,
    /// uid of the lead's pod.
    pub pod: String,
}

/// The kubelets of all nodes.
#[derive(Default)]
pub struct Kubelet {
    /// All commands so far.
    pub runs: Vec<Run>,
    pub nodes: Nodes,
    /// The deadline of the lead with a uid, and the version of the `ConfigMap` that it was read from.
    deadlines: BTreeMap<String, (Value, Option<u64>)>,
}

impl Kubelet {
    /// Brings each pod one step further.
    pub fn step(&mut self, store: &mut Store) {
        let all = store.select("", is_owned_pod);
        for (path, pod) in &all {
            if self.nodes.are_lost_to(pod) {
                self.nodes.look_after(store, path, pod);
            } else if !is_over(pod) {
                self.step_one(store, path, pod, &all);
            } else if is_going(pod) {
                store.confirm_end(path);
            }
        }
    }

    fn step_one(
        &mut self,
        store: &mut Store,
        path: &str,
        pod: &Value,
        all: &[(String, Arc<Value>)],
    ) {
        let status = &pod["status"];
        if is_going(pod) {
            let end = if has_begun(pod) { stop(pod) } else { End::killed() };
            return Self::end(store, path, &end);
        }
        if pod["spec"]["nodeName"].is_null() {
            let index = if is_broker(pod) { index_of(pod) } else { 0 };
            let Some(node) = self.nodes.place(usize::try_from(index).unwrap()) else { return };
            let mut placed = Value::clone(pod);
            placed["spec"]["nodeName"] = json!(node);
            placed["status"] = waiting(pod, store.clock.now());
            store.put(path, placed);
        } else if !has_begun(pod) {
            Self::start(store, path, pod);
        } else if !is_ready(pod) {
            let quorum = all.iter().all(|(_, other)| {
                is_over(other)
                    || has_begun(other)
                    || other["metadata"]["ownerReferences"] != pod["metadata"]["ownerReferences"]
            });
            if is_worker(pod) || quorum {
                store.set_status(path, running(pod, true, store.clock.now()));
                self.note_run(store, pod);
            }
        } else if !is_worker(pod)
            && let Some((deadline, since)) = self.deadline(store, pod).zip(started(store, status))
            && since >= deadline
        {
            Self::end(store, path, &End::of_agent(Exit::Deadline, true));
        }
    }

    /// After how many seconds the lead in `pod` ends the run, by the `ConfigMap` as it is now.
    fn deadline(&mut self, store: &Store, pod: &Value) -> Option<u64> {
        let version = config_of(store, pod)["metadata"]["resourceVersion"].clone();
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let known = self.deadlines.get(uid).filter(|(of, _)| *of == version);
        if let Some((_, deadline)) = known {
            return *deadline;
        }
        let deadline = agent_of(store, pod).ok().and_then(|agent| agent.deadline());
        self.deadlines.insert(uid.to_owned(), (version, deadline));
        deadline
    }

    /// Starts a pod, if everything exists that it mounts.
    fn start(store: &mut Store, path: &str, pod: &Value) {
        let namespace = path.rsplit_once("/pods/").unwrap().0.to_owned();
        let exists = |kind: &str, name: &Value| {
            name.is_null()
                || store.get(&format!("{namespace}/{kind}/{}", name.as_str().unwrap())).is_some()
        };
        let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let mounts = volumes.iter().all(|volume| {
            exists("secrets", &volume["secret"]["secretName"])
                && exists("configmaps", &volume["configMap"]["name"])
        });
        // `makePayload` of the ConfigMap's volume fails where one of the keys is missing that it lists.
        let has_key = |item: &Value| {
            let key = item["key"].as_str().unwrap();
            !config_of(store, pod)["data"][key].is_null()
        };
        let items = volumes.iter().filter_map(|volume| volume["configMap"]["items"].as_array());
        if !mounts || !items.flatten().all(has_key) {
            return;
        }
        if is_broker(pod)
            && let Err(end) = agent_of(store, pod)
        {
            return Self::end(store, path, &end);
        }
        store.set_status(path, running(pod, false, store.clock.now()));
    }

    /// Notes that the command of a lead begins now.
    fn note_run(&mut self, store: &Store, pod: &Value) {
        if is_broker(pod) && agent_of(store, pod).is_ok_and(|agent| agent.has_command()) {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let job = text(&pod["metadata"]["ownerReferences"][0]["uid"]);
            let run = Run { job, pod: text(&pod["metadata"]["uid"]) };
            // A lead whose node was cut off becomes ready again, and its command still runs.
            if !self.runs.contains(&run) {
                self.runs.push(run);
            }
        }
    }

    /// Ends the runner of the pod at `path`, and the pod with it.
    pub fn end(store: &mut Store, path: &str, end: &End) {
        let Some(pod) = store.get(path).cloned() else { return };
        let message = end.message.as_ref().map(TerminationMessage::to_json);
        let now = store.clock.now();
        let phase = if end.code == 0 { "Succeeded" } else { "Failed" };
        let reason = match end.code {
            0 => "Completed",
            _ if has_begun(&pod) || end != &End::killed() => "Error",
            // `TerminatePod` of the kubelet's status manager.
            _ => "ContainerStatusUnknown",
        };
        let ended = json!({ "terminated": {
            "exitCode": end.code, "reason": reason, "message": message, "finishedAt": now.to_string(),
        } });
        store.change_status(path, |status| {
            status["phase"] = json!(phase);
            status["containerStatuses"] = containers(&pod, &ended, false);
            set_ready(status, false, now);
        });
    }

    /// Refuses the pod at `path`, which may run already, as a kubelet does after its own restart (`rejectPod`): of the
    /// status before, it keeps the start time.
    pub fn refuse(store: &mut Store, path: &str) {
        let Some(pod) = store.get(path).cloned() else { return };
        let now = store.clock.now();
        let message = "Pod was rejected: Node didn't have enough resource: cpu";
        let start =
            if has_begun(&pod) { &pod["status"]["startTime"] } else { &json!(now.to_string()) };
        let written =
            json!([{ "manager": "kubelet", "subresource": "status", "time": now.to_string() }]);
        let refused = json!({
            "phase": "Failed", "reason": "OutOfcpu", "message": message, "startTime": start,
            "containerStatuses": null, "conditions": null,
        });
        let _ = store.merge(path, &json!({ "metadata": { "managedFields": written } }));
        store.change_status(path, |status| merge(status, &refused));
    }

    /// Deletes the pod at `path`, as the eviction API does: with a condition that gives the reason.
    pub fn evict(store: &mut Store, path: &str) {
        disrupt(store, path, "EvictionByEvictionAPI");
        let _ = store.delete(path, &Value::Null);
    }
}

/// True for a pod that the operator, or the Job controller, has made: somebody may have changed its labels.
fn is_owned_pod(object: &Value) -> bool {
    object["kind"] == "Pod" && object["metadata"]["ownerReferences"].is_array()
}

fn is_worker(pod: &Value) -> bool {
    !is_broker(pod) || index_of(pod) > 0
}

/// How a pod that gets SIGTERM ends: with a code of the agent's own, however its command reacts to the signal.
fn stop(pod: &Value) -> End {
    let runs = is_broker(pod) && !is_worker(pod) && is_ready(pod);
    End::of_agent(Exit::Stopped, runs)
}

fn agent_of(store: &Store, pod: &Value) -> Result<Agent, Box<End>> {
    if !is_broker(pod) {
        return Err(Box::new(End::killed()));
    }
    Agent::start(pod, config_of(store, pod))
}

/// The `ConfigMap` that a pod of a Job mounts as the configuration of its agent.
fn config_of<'store>(store: &'store Store, pod: &Value) -> &'store Value {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let name = volumes.into_iter().find_map(|volume| volume["configMap"]["name"].as_str());
    let namespace = pod["metadata"]["namespace"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{}", name.unwrap());
    store.get(&path).unwrap_or(&Value::Null)
}

/// For how many seconds the containers of a pod have run.
fn started(store: &Store, status: &Value) -> Option<u64> {
    let at = status["containerStatuses"][0]["state"]["running"]["startedAt"].as_str();
    store.clock.since(at).map(|since| since.as_secs())
}
