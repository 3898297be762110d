//! The invariants that hold after any actions.

use crate::action::{Action, SERVICES_POD};
use crate::support::world::{CLUSTER, CONFIG, JOB, PODS, SECRETS};
use crate::world::{World, owned_by_cluster};
use crate::{history, status};
use flux_testkit::objects::{is_finished, is_over, is_suspended};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The violations after a MiniCluster with `fields` was created and `actions` were played.
pub(crate) async fn hold(fields: &str, actions: &[Action]) -> Result<(), String> {
    let mut world = World::new();
    world.server.limit_answers(Some(0));
    world.create(fields);
    for action in actions {
        world.happen(action.clone()).await;
    }
    let result = settled(&mut world).await;
    result.map_err(|fault| format!("{fault}\n{}", world.server.journal().join("\n")))
}

/// Checks the settled cluster, then another operator, then the objects that a deleted MiniCluster leaves.
async fn settled(world: &mut World) -> Result<(), String> {
    world.settle().await?;
    if world.unheard {
        world.restart();
        world.settle().await?;
    }
    at_rest(world)?;
    another_operator_agrees(world).await?;
    nothing_is_left(world).await?;
    at_rest(world)
}

/// Checks that hold at any time, and those that hold when nothing is due.
fn at_rest(world: &World) -> Result<(), String> {
    let mut faults = world.server.with(|memory| memory.mistakes.clone());
    faults.extend(world.store(|store| history::faults(&store.history)));
    faults.extend(world.store(|store| status::fault(store)));
    faults.extend(repeated(world));
    faults.extend(several_jobs(world));
    faults.extend(left_running(world));
    faults.extend(missing_secrets(world).iter().map(|path| format!("pods wait for {path}")));
    faults.extend(closed(world));
    if world.metrics.text().unwrap().contains("category=\"Internal\"") {
        faults.push("the operator has panicked".to_owned());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Commands that began more often than their Job allows. A suspension lets a command begin again.
fn repeated(world: &World) -> Vec<String> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for run in world
        .kubernetes
        .kubelet
        .runs
        .iter()
        .filter(|run| !world.kubernetes.jobs.suspended_pods.contains(&run.pod))
    {
        *runs.entry(&run.job).or_default() += 1;
    }
    let jobs = world.store(|store| {
        let made = store.history.iter().filter_map(|event| event.after.as_ref());
        made.filter(|object| object["kind"] == "Job").cloned().collect::<Vec<Arc<Value>>>()
    });
    let may_repeat = |uid: &str| {
        let job = jobs.iter().find(|job| job["metadata"]["uid"] == uid);
        job.is_some_and(|job| job["spec"]["backoffLimit"].as_u64().is_some_and(|limit| limit > 0))
    };
    let twice = runs.iter().filter(|(job, number)| **number > 1 && !may_repeat(job));
    twice.map(|(job, number)| format!("the command of {job} was started {number} times")).collect()
}

/// Jobs beside the only one that may exist.
fn several_jobs(world: &World) -> Vec<String> {
    world.store(|store| {
        let ours = |object: &Value| object["kind"] == "Job" && owned_by_cluster(object).is_some();
        let jobs = store.all().iter().filter(|(path, object)| *path != JOB && ours(object));
        jobs.map(|(path, _)| format!("another Job: {path}")).collect()
    })
}

/// Pods of `spec.services` that outlive the run, or run while the Job is suspended.
fn left_running(world: &World) -> Option<String> {
    world.store(|store| {
        let runs = |job: &Value| !is_finished(job) && job["spec"]["suspend"] != true;
        let rests = store.get(JOB).is_some_and(|job| owned_by_cluster(job).is_some() && !runs(job));
        let ours = store.get(SERVICES_POD).is_some_and(|pod| owned_by_cluster(pod).is_some());
        (rests && ours).then(|| "the pod of spec.services runs and the Job does not".to_owned())
    })
}

/// Secrets that pods of the Job wait for, and that nobody has deleted.
fn missing_secrets(world: &World) -> Vec<String> {
    let volumes = |pod: &Value| pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let missing = world.store(|store| {
        let pods = store.inside(PODS).filter(|(_, pod)| !is_over(pod));
        let names = pods.flat_map(|(_, pod)| volumes(pod)).filter_map(|volume| {
            volume["secret"]["secretName"].as_str().map(|name| format!("{SECRETS}/{name}"))
        });
        names.filter(|path| store.get(path).is_none()).collect::<Vec<_>>()
    });
    if world.lacks_secret { vec![] } else { missing }
}

/// A Job whose pods wait for the record of their run.
fn closed(world: &World) -> Option<String> {
    world.store(|store| {
        let ours = |path: &str| store.get(path).filter(|it| owned_by_cluster(it).is_some());
        let job = ours(JOB).filter(|job| !is_finished(job) && !is_suspended(job))?;
        let data = &ours(CONFIG)?["data"];
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array()?;
        let items = volumes.iter().find_map(|volume| volume["configMap"]["items"].as_array())?;
        let mut lacking =
            items.iter().filter_map(|it| it["key"].as_str()).filter(|key| data[key].is_null());
        let key = lacking.next().filter(|_| !data["agent.toml"].is_null())?;
        Some(format!("the pods of the Job wait for {key}"))
    })
}

/// Another operator without memory writes nothing; if the status is lost, it writes only the status.
async fn another_operator_agrees(world: &mut World) -> Result<(), String> {
    world.server.note("another operator");
    let before = world.server.journal().len();
    world.restart();
    world.settle().await?;
    let mut asked = world.server.journal().split_off(before);
    // The operator tries again to create an object whose name is taken.
    asked.retain(|line| {
        !line.contains(" GET ") && (line.ends_with(" 200") || line.ends_with(" 201"))
    });
    if !asked.is_empty() {
        return Err(format!("another operator has written: {asked:?}"));
    }
    let Some(before) = world.server.get(CLUSTER) else { return Ok(()) };
    world.server.note("the status is lost");
    world.store(|store| store.set_status(CLUSTER, Value::Null));
    world.restart();
    world.settle().await?;
    let Some(after) = world.server.get(CLUSTER) else { return Ok(()) };
    let ours =
        |path: &str| world.server.get(path).filter(|object| owned_by_cluster(object).is_some());
    let has_job = ours(JOB).is_some();
    let has_note = ours(CONFIG).is_some_and(|it| history::note(&it).is_some());
    let derivable = |object: &Value| derivable(&object["status"], has_job, has_note);
    let (before, after) = (derivable(&before), derivable(&after));
    if before == after {
        Ok(())
    } else {
        Err(format!("from the objects alone the status is {after}, not {before}"))
    }
}

/// The part of a status that follows from the existing objects: the size from the Job, the exit code of a lead that
/// is gone from the record.
fn derivable(status: &Value, has_job: bool, has_note: bool) -> Value {
    let condition = |it: &Value| {
        json!([it["type"], it["status"], it["reason"], it["message"], it["observedGeneration"]])
    };
    let conditions = status["conditions"].as_array().into_iter().flatten().map(condition);
    json!({
        "state": status["state"], "reason": status["reason"], "exitCode": if has_note { &status["exitCode"] } else { &Value::Null },
        "readyBrokers": status["readyBrokers"], "startTime": status["startTime"],
        "completionTime": status["completionTime"], "generation": status["observedGeneration"],
        "size": if has_job { &status["size"] } else { &Value::Null },
        "conditions": conditions.collect::<Vec<_>>(),
    })
}

/// After the deletion of a MiniCluster no object of the operator is left, and it writes no more.
async fn nothing_is_left(world: &mut World) -> Result<(), String> {
    world.server.note("the MiniCluster is deleted");
    world.server.limit_answers(Some(0));
    let _ =
        world.store(|store| store.delete(CLUSTER, &json!({ "propagationPolicy": "Background" })));
    world.settle().await?;
    let left = world.store(|store| {
        let ours = store.all().iter().filter(|(_, object)| {
            owned_by_cluster(object).is_some()
                || object["metadata"]["ownerReferences"][0]["kind"] == "Job"
        });
        ours.map(|(path, _)| path.clone()).collect::<Vec<_>>()
    });
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}
