//! The status that follows from the objects alone.

use crate::action::OBJECTS;
use crate::history::note;
use crate::support::world::{CLUSTER, CONFIG, JOB};
use crate::world::owned_by_cluster;
use flux_api::cluster::validate::validate;
use flux_api::crd::{MiniCluster, MiniClusterStatus, State};
use flux_testkit::job::pods_of;
use flux_testkit::objects::{index_of, is_over, is_ready, is_suspended};
use flux_testkit::samples::defaults;
use flux_testkit::store::Store;
use serde_json::Value;

/// The faults in the status of the MiniCluster once the cluster is settled.
pub(crate) fn fault(store: &Store) -> Option<String> {
    let object = store.get(CLUSTER)?;
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let cluster: MiniCluster = serde_json::from_value(object.clone()).unwrap();
    let Some(status) = &cluster.status else { return Some("there is no status".to_owned()) };
    let of_cluster = |path: &str| {
        let owner = cluster.metadata.uid.as_deref();
        store.get(path).filter(|object| owned_by_cluster(object) == owner)
    };
    let is_of_others = |path: &&str| store.get(path).is_some() && of_cluster(path).is_none();
    let occupied = OBJECTS.iter().any(is_of_others);
    let mut faults = Vec::new();
    if status.observed_generation != cluster.metadata.generation {
        faults.push("another generation".to_owned());
    }
    if let Some(job) = of_cluster(JOB) {
        faults.extend(of_job(store, status, job));
    } else {
        let note = of_cluster(CONFIG).and_then(note);
        let valid = validate(&cluster, &defaults()).is_ok();
        let expected = match note {
            // A newer specification may wait for a name.
            Some(note) if occupied && object["metadata"]["generation"] != note["generation"] => {
                return None;
            }
            Some(note) if note["reason"].is_null() && store.get(JOB).is_some() => {
                if valid {
                    State::Pending
                } else {
                    State::Invalid
                }
            }
            Some(note) if note["complete"] == true => State::Complete,
            Some(_) => State::Failed,
            None if !valid => State::Invalid,
            None if occupied => State::Pending,
            None => return Some("nothing was started, and nothing says why".to_owned()),
        };
        if status.state != Some(expected) {
            faults.push(format!("{:?}, not {expected:?}", status.state));
        }
    }
    (!faults.is_empty())
        .then(|| format!("the status says {}: {}", faults.join("; "), object["status"]))
}

fn of_job(store: &Store, status: &MiniClusterStatus, job: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |name: &str, said: String, expected: String| {
        if said != expected {
            faults.push(format!("{name} {said}, not {expected}"));
        }
    };
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    check("size", status.size.to_string(), number(&job["spec"]["parallelism"]).to_string());
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let has = |type_: &str| conditions.iter().any(|condition| condition["type"] == type_);
    let state = |state: Option<State>| format!("{state:?}");
    let ready = number(&job["status"]["ready"]);
    if has("Complete") || has("Failed") {
        let expected = if has("Complete") { State::Complete } else { State::Failed };
        check("state", state(status.state), state(Some(expected)));
        check("brokers", status.ready_brokers.to_string(), "0".to_owned());
        if has("Complete") {
            check("exit code", format!("{:?}", status.exit_code), "Some(0)".to_owned());
        }
        return faults;
    }
    let pods = pods_of(store, JOB, job["metadata"]["uid"].as_str().unwrap());
    let lead = pods.iter().rfind(|(_, pod)| index_of(pod) == 0 && !is_over(pod));
    let said = status.conditions.iter().find(|condition| condition.type_ == "Suspended");
    let said = said.map_or("nothing", |condition| condition.status.as_str());
    let suspended = if is_suspended(job) { "True" } else { "False" };
    check("the condition Suspended", said.to_owned(), suspended.to_owned());
    let expected = match lead {
        _ if is_suspended(job) => {
            let left = pods.iter().filter(|(_, pod)| !is_over(pod)).count();
            check("pods of a suspended Job", left.to_string(), "0".to_owned());
            State::Suspended
        }
        Some((_, lead)) if is_ready(lead) => State::Running,
        Some((_, lead)) if lead["status"]["phase"] == "Running" || ready > 0 => State::Starting,
        Some(_) => State::Pending,
        None => return faults,
    };
    check("state", state(status.state), state(Some(expected)));
    check("brokers", status.ready_brokers.to_string(), ready.to_string());
    // A lead that ended before its Job was suspended has an exit code; the next lead decides the result.
    let has_ended =
        is_suspended(job) && pods.iter().any(|(_, pod)| index_of(pod) == 0 && is_over(pod));
    if !has_ended {
        check("exit code", format!("{:?}", status.exit_code), "None".to_owned());
    }
    faults
}
