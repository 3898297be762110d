//! Tests of the lifecycle: the objects of a run in, one value out.

use super::lifecycle::{Suspender, removed_by_suspension};
use super::*;
use crate::controller::error::ObjectName;
use crate::controller::fixtures::{
    at, built, cluster, delete_failed_job, ended, ended_job, job, pod, running, waiting,
};
use crate::controller::run_record::RECORD_ANNOTATION;
use flux_api::cluster::QUEUE_LABEL;
use flux_api::crd::State;
use flux_api::objects::SUSPENDED_ANNOTATION;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus};
use serde_json::{Value, json};

/// A Job that never repeats its command, with two ready pods.
fn once() -> Job {
    let mut job = job(2);
    job.spec.as_mut().unwrap().backoff_limit_per_index = Some(6);
    job
}

fn restarting() -> Job {
    let mut job = job(2);
    let template = &mut job.spec.as_mut().unwrap().template;
    template.spec.get_or_insert_default().restart_policy = Some("OnFailure".to_owned());
    job
}

/// A suspended Job with so many pods, the operator's note, and the label of a queue.
fn suspended(pods: i32, note: Option<&str>, queue: Option<&str>) -> Job {
    let mut job = once();
    job.spec.as_mut().unwrap().suspend = Some(true);
    let status = job.status.as_mut().unwrap();
    (status.active, status.ready) = (Some(pods), None);
    let note = note.map(|note| (SUSPENDED_ANNOTATION.to_owned(), note.to_owned()));
    job.annotations_mut().extend(note);
    job.labels_mut().extend(queue.map(|queue| (QUEUE_LABEL.to_owned(), queue.to_owned())));
    job
}

fn lead(phase: &str, state: ContainerState) -> Pod {
    pod("hello-0", phase, "hello", state)
}

/// A lead whose runner ended at second 190 with this code, or, without one, runs and is not ready.
fn runner(phase: &str, code: Option<i32>) -> Pod {
    let mut state = code.map_or_else(running, |code| ended(code, "Error", None));
    if let Some(end) = &mut state.terminated {
        end.finished_at = Some(at(190));
    }
    let mut lead = lead(phase, state);
    lead.status.as_mut().unwrap().conditions = None;
    lead
}

fn deleted(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(at(191));
    pod
}

fn lifecycle(job: &Job, lead: Option<&Pod>, interactive: bool) -> Lifecycle {
    let pods = Pods { lead: lead.cloned(), ..Pods::default() };
    Lifecycle::of(Some(job), None, &pods, interactive, &at(300))
}

#[test]
fn each_stage_of_a_run_has_its_lifecycle() {
    use Lifecycle::{Ending, Failing, Pending, Running, Starting, Suspended, Suspending};
    let failed = ended_job("Failed", "BackoffLimitExceeded");
    let ready = lead("Running", running());
    let image = lead("Pending", waiting("ImagePullBackOff"));
    for (what, job, lead, interactive, expected) in vec![
        ("no lead", job(0), None, false, Pending),
        ("no image", job(0), Some(image), false, Pending),
        ("not ready", job(2), Some(runner("Running", None)), false, Starting),
        ("ready", job(4), Some(ready.clone()), false, Running),
        ("ended", job(2), Some(runner("Running", Some(137))), false, Ending),
        (
            "restarted by its kubelet",
            restarting(),
            Some(runner("Running", Some(1))),
            false,
            Starting,
        ),
        ("replaced", once(), Some(runner("Failed", Some(75))), true, Pending),
        ("killed", once(), Some(runner("Failed", Some(137))), true, Pending),
        ("may follow no other", once(), Some(runner("Failed", Some(137))), false, Ending),
        ("its Job has failed", failed, Some(ready.clone()), false, Failing),
        ("removed", job(0), Some(deleted(runner("Failed", Some(75)))), false, Pending),
        ("has pods", suspended(1, None, None), Some(ready), false, Suspending),
        ("by a user", suspended(0, None, None), None, false, Suspended(Suspender::Other)),
        (
            "by the specification",
            suspended(0, Some("true"), Some("team")),
            None,
            false,
            Suspended(Suspender::Specification),
        ),
        ("idle", suspended(0, Some("idle/"), None), None, false, Suspended(Suspender::Idle)),
        (
            "by a queue",
            suspended(0, None, Some("team")),
            None,
            false,
            Suspended(Suspender::Queue("team".to_owned())),
        ),
    ] {
        assert_eq!(lifecycle(&job, lead.as_ref(), interactive), expected, "{what}");
    }
    assert_eq!(Lifecycle::of(None, None, &Pods::default(), false, &at(300)), Lifecycle::New);
}

#[test]
fn a_run_ends_with_its_job_or_its_lead() {
    let complete = ended_job("Complete", "SuccessPolicy");
    let failed = || ended_job("Failed", "BackoffLimitExceeded");
    let of = |code| Some(runner("Running", Some(code)));
    for (what, job, lead, expected) in vec![
        ("the Job is complete", complete, None, Some((State::Complete, 200))),
        ("the Job has failed", failed(), None, Some((State::Failed, 200))),
        ("a webhook's container failed", failed(), of(0), Some((State::Complete, 190))),
        ("success", once(), of(0), Some((State::Complete, 190))),
        ("failure", once(), of(7), Some((State::Failed, 190))),
        ("the lead is replaced", once(), of(137), None),
        ("the Job may repeat the command", job(2), of(7), None),
        ("suspended", suspended(1, None, None), of(7), None),
        ("deleted", once(), of(7).map(deleted), None),
    ] {
        let found = lifecycle(&job, lead.as_ref(), false);
        let end = found.end().and_then(|end| end.at.clone());
        let end = end.map(|at| (found.state(), at.0.as_second()));
        assert_eq!(end, expected, "{what}");
    }
}

#[test]
fn only_containers_of_the_job_delay_its_end() {
    let mut job = once();
    let template = json!({ "containers": [{ "name": "hello" }, { "name": "web" }] });
    job.spec.as_mut().unwrap().template.spec = serde_json::from_value(template).unwrap();
    for (name, code, ends) in [
        ("web", None, false),
        ("web", Some(0), true),
        ("proxy", None, true),
        ("proxy", Some(1), true),
    ] {
        let mut lead = runner("Running", Some(0));
        let containers = lead.status.as_mut().unwrap().container_statuses.as_mut().unwrap();
        let state = code.map(|code| ended(code, "Error", None));
        let other = ContainerStatus { name: name.to_owned(), state, ..ContainerStatus::default() };
        containers.insert(0, other);
        let found = lifecycle(&job, Some(&lead), false);
        assert_eq!(found.end().is_some_and(|end| end.complete), ends, "{name} {code:?}");
    }
}

#[test]
fn a_suspension_removes_a_lead_that_the_job_controller_released() {
    let job = job(4);
    let lead = runner("Failed", Some(75));
    assert!(!removed_by_suspension(&lead, &job), "the pod is not being deleted");
    let mut lead = deleted(lead);
    assert!(removed_by_suspension(&lead, &job));
    let ending = ended_job("FailureTarget", "PodFailurePolicy");
    assert!(!removed_by_suspension(&lead, &ending), "the Job ends");
    lead.metadata.finalizers = Some(vec!["batch.kubernetes.io/job-tracking".to_owned()]);
    assert!(!removed_by_suspension(&lead, &job), "the pod was lost");
}

/// The live objects of a running `echo hello`.
fn under_way() -> Observed {
    let mut built = built(&cluster(&json!({})), 1);
    built.job.metadata.uid = Some("job-uid".to_owned());
    Observed { job: Some(built.job), config_map: Some(built.config_map), ..Observed::default() }
}

/// The same after the Job has failed, and somebody has deleted it; without an end, the operator did not see it.
fn gone(has_end: bool) -> Observed {
    let mut live = under_way();
    delete_failed_job(&mut live);
    if !has_end {
        let note = json!({ "job": "job-uid", "generation": 1 }).to_string();
        let annotations = live.config_map.as_mut().unwrap().annotations_mut();
        annotations.insert(RECORD_ANNOTATION.to_owned(), note);
    }
    live
}

#[test]
fn a_recorded_run_is_not_repeated_after_unrelated_edits() {
    let is_over = |live: &Observed, spec: Option<Value>, generation| {
        let cluster = spec.map(|spec| cluster(&spec));
        let live = live.clone().classified(cluster.as_ref(), generation, "agent", &at(300));
        live.lifecycle.record().is_some()
    };
    let unrelated = json!({ "maxSize": 9, "size": 2, "cleanup": true, "deadlineSeconds": 5 });
    let other = || Some(json!({ "tasks": 3 }));
    let taken =
        NameConflict::Taken(ObjectName { kind: "Job".to_owned(), name: "hello".to_owned() });
    let orphaned = Observed { conflicts: vec![taken], ..gone(false) };
    let mut another = gone(true);
    another.job = Some(ended_job("Complete", "SuccessPolicy"));
    let mut same = another.clone();
    same.job.as_mut().unwrap().metadata.uid = Some("job-uid".to_owned());
    for (what, live, spec, generation, over) in vec![
        ("nothing exists", Observed::default(), Some(json!({})), 1, false),
        ("no edit", gone(true), Some(json!({})), 1, true),
        ("an unrelated edit", gone(true), Some(unrelated), 2, true),
        ("another release has noted other fields", gone(true), other(), 1, true),
        ("another command", gone(true), other(), 2, false),
        ("an invalid edit", gone(true), None, 2, true),
        ("the end was not seen", gone(false), Some(json!({})), 1, true),
        ("an invalid edit, and no end", gone(false), None, 2, true),
        ("another command, and no end", gone(false), other(), 2, false),
        ("the Job lost its owner", orphaned, Some(json!({})), 1, false),
        ("a run that goes on", under_way(), Some(json!({})), 1, false),
        ("the record of an earlier Job", another, Some(json!({})), 1, false),
        ("the record of this Job", same, Some(json!({})), 1, true),
    ] {
        assert_eq!(is_over(&live, spec, generation), over, "{what}");
    }
}
