//! Tests of [`status`]: live objects and plan in, status out.

use super::*;
use crate::controller::decide::Plan;
use crate::controller::fixtures::{at, ended, ended_job, job, pod, running, table, waiting};
use crate::controller::job_ext::LATE_START_ANNOTATION;
use crate::controller::observe::foreign::Foreign;
use crate::controller::observe::waiting::Waiting;
use crate::controller::observe::{Observed, Pods};
use crate::controller::run_record::RunRecord;
use flux_api::cluster::validate::{Violation, Violations};
use flux_api::cluster::{QUEUE_LABEL, QUEUED_SIZE_ANNOTATION};
use flux_api::objects::SUSPENDED_ANNOTATION;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, Pod, PodCondition};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Default)]
struct Case {
    live: Observed,
    plan: Plan,
    record: Option<RunRecord>,
}

fn observed(job: Option<Job>, lead: impl Into<Option<Pod>>) -> Case {
    let live = Observed {
        job,
        pods: Pods { lead: lead.into(), ..Pods::default() },
        ..Observed::default()
    };
    let plan = Plan { generation: 1, maximum_size: Some(4), ..Plan::default() };
    Case { live, plan, ..Case::default() }
}

fn lead(phase: &str, state: ContainerState) -> Pod {
    pod("hello-0-abcde", phase, "hello", state)
}

fn ready() -> Case {
    observed(Some(job(4)), lead("Running", running()))
}

fn of(old: Option<&MiniClusterStatus>, observed: &Case) -> MiniClusterStatus {
    at_second(300, old, observed)
}

fn at_second(second: i64, old: Option<&MiniClusterStatus>, observed: &Case) -> MiniClusterStatus {
    let Case { live, plan, record } = observed;
    let (job, record) = (live.job.as_ref(), record.clone());
    let lifecycle = Lifecycle::of(job, record, &live.pods, plan.interactive, &at(second));
    let live = &Observed { lifecycle, ..live.clone() };
    status(old, "hello", &Facts { live, plan, error: None }, at(second))
}

fn failed_for(reason: &str, state: ContainerState) -> MiniClusterStatus {
    of(None, &observed(Some(ended_job("Failed", reason)), lead("Failed", state)))
}

fn failed(state: ContainerState) -> MiniClusterStatus {
    failed_for("BackoffLimitExceeded", state)
}

fn message<'status>(status: &'status MiniClusterStatus, type_: &str) -> &'status str {
    &status.conditions.iter().find(|condition| condition.type_ == type_).unwrap().message
}

/// Asserts one condition: type, status, reason, and a part of its message, or after `=` the whole message.
fn check(status: &MiniClusterStatus, (type_, holds, reason, expected): (&str, &str, &str, &str)) {
    assert_eq!(table(status)[type_], (holds, reason));
    assert!(status.conditions.iter().all(|condition| !condition.message.is_empty()));
    let message = message(status, type_);
    match expected.strip_prefix('=') {
        Some(all) => assert_eq!(message, all),
        None => assert!(message.contains(expected), "{message}"),
    }
}

const COMMAND_FAILED: &str = r#"{"exitCode":7,"commandRan":true,"phases":[{"name":"command","startMilliseconds":5,"durationMilliseconds":9}]}"#;

#[test]
fn each_phase_of_a_start_has_a_state_and_message() {
    let mut refused = job(0);
    refused.status.as_mut().unwrap().active = Some(0);
    let mut not_ready = lead("Running", running());
    not_ready.status.as_mut().unwrap().conditions = None;
    let image = || lead("Pending", waiting("ImagePullBackOff"));
    for (job, lead, state, reason, expected) in [
        (None, None, State::Pending, "Starting", "=waiting for the Job"),
        (Some(&job(0)), None, State::Pending, "Starting", "the lead's pod"),
        (Some(&refused), None, State::Pending, "Starting", "kubectl describe job hello"),
        (Some(&job(0)), Some(&image()), State::Pending, "Waiting", "hello-0-abcde"),
        (Some(&job(0)), Some(&image()), State::Pending, "Waiting", "ImagePullBackOff"),
        (Some(&job(2)), Some(&not_ready), State::Starting, "Starting", "=2 of 4 brokers are ready"),
    ] {
        let status = of(None, &observed(job.cloned(), lead.cloned()));
        assert_eq!(status.state, Some(state));
        check(&status, ("Progressing", "True", reason, expected));
    }
    let status = of(None, &observed(Some(job(0)), None));
    assert_eq!((status.size, status.ready_brokers, status.maximum_size), (4, 0, 4));
    assert_eq!(status.selector, "hpa-selector=hello");
}

#[test]
fn a_ready_lead_has_its_quorum_without_all_brokers() {
    let status = of(None, &ready());
    assert_eq!((status.state, status.ready_brokers), (Some(State::Running), 4));
    check(&status, ("Progressing", "False", "Running", "=the command can run"));
    assert_eq!(table(&status)["Complete"], ("False", "NotFinished"));
    let quorum = "=the lead is ready: the quorum was reached";
    check(&status, ("Ready", "True", "QuorumReached", quorum));
    let status = of(None, &observed(Some(job(3)), lead("Running", running())));
    let lacking =
        format!("{quorum}; 3 of 4 brokers are ready: the logs of the other pods show why");
    check(&status, ("Ready", "True", "QuorumReached", &lacking));
}

/// A running lead beside a container that ended with exit code 3.
fn lead_beside_a_failure(message: &str) -> Pod {
    let mut lead = lead("Running", running());
    let status = lead.status.as_mut().unwrap();
    status.conditions = None;
    let containers = status.container_statuses.as_mut().unwrap();
    containers[0].ready = true;
    let failed = pod("", "", "beside", ended(3, "Error", Some(message)));
    containers.extend(failed.status.unwrap().container_statuses.unwrap());
    lead
}

#[test]
fn a_failed_sidecar_is_reported_beside_a_ready_lead() {
    for (left, last_message) in [
        (r#"{"exitCode":3,"commandRan":true,"lastError":"the agent's word"}"#, "the agent's word"),
        ("a program's\nlast word\n", "last word"),
    ] {
        let status = of(None, &observed(Some(job(3)), lead_beside_a_failure(left)));
        assert_eq!((status.state, status.ready_brokers), (Some(State::Running), 3));
        let expected = format!("; but its container beside exited with code 3: {last_message}");
        check(&status, ("Ready", "True", "QuorumReached", &expected));
    }
    let mut starting = lead_beside_a_failure("");
    starting.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = false;
    let status = of(None, &observed(Some(job(3)), starting));
    assert_eq!(status.state, Some(State::Starting));
}

#[test]
fn a_complete_job_gives_exit_code_0_and_its_reason() {
    let left = r#"{"exitCode":0,"commandRan":true}"#;
    let lead = lead("Succeeded", ended(0, "Completed", Some(left)));
    let mut observed = observed(Some(ended_job("Complete", "SuccessPolicy")), lead);
    let status = of(None, &observed);
    assert_eq!((status.exit_code, status.ready_brokers), (Some(0), 0));
    assert_eq!((status.state, &status.completion_time), (Some(State::Complete), &Some(at(200))));
    check(&status, ("Complete", "True", "CommandSucceeded", "exit code 0"));
    check(&status, ("Failed", "False", "NotFailed", "see the condition Complete"));
    assert_eq!(status.reason.as_deref(), Some("CommandSucceeded"));
    observed.plan.interactive = true;
    let shut_down = ("Complete", "True", "ShutDown", "=the instance was shut down");
    check(&of(None, &observed), shut_down);
}

/// A lead whose runner began at second 200, passed its startup probe, and has been unready since second `since`.
fn lead_not_ready_since(since: i64) -> Pod {
    let mut lead = lead("Running", running());
    let status = lead.status.as_mut().unwrap();
    let runner = &mut status.container_statuses.as_mut().unwrap()[0];
    runner.started = Some(true);
    runner.state.as_mut().unwrap().running.as_mut().unwrap().started_at = Some(at(200));
    let ready = &mut status.conditions.as_mut().unwrap()[0];
    (ready.status, ready.last_transition_time) = ("False".to_owned(), Some(at(since)));
    lead
}

#[test]
fn a_lead_that_was_ready_is_never_starting_again() {
    let status = of(None, &observed(Some(job(3)), lead_not_ready_since(280)));
    assert_eq!(status.state, Some(State::Degraded));
    let lost = "no longer is: 3 of 4 brokers are ready";
    check(&status, ("Progressing", "False", "Degraded", lost));
    assert_eq!(table(&status)["Ready"], ("False", "LeadNotReady"));
    // Before the first readiness probe the pod has been unready since its creation.
    let status = of(None, &observed(Some(job(0)), lead_not_ready_since(150)));
    assert_eq!((status.state, table(&status)["Ready"].0), (Some(State::Running), "True"));
}

#[test]
fn a_lead_is_running_until_it_has_ended() {
    let status = of(None, &observed(Some(job(0)), lead_not_ready_since(295)));
    assert_eq!(status.state, Some(State::Running));
    assert_eq!((table(&status)["Ready"].0, status.ready_brokers), ("True", 1));
    let lead = lead("Failed", ended(137, "Error", None));
    let status = of(Some(&status), &observed(Some(job(0)), lead));
    assert_eq!((status.state, status.exit_code), (Some(State::Ending), Some(137)));
}

#[test]
fn progressing_has_what_a_worker_waits_for() {
    let message = "pod hello-3-x has no node: full";
    let mut observed = observed(Some(job(3)), lead("Running", running()));
    for (is_persistent, reason) in [(false, "Starting"), (true, "Waiting")] {
        observed.live.pods.waiting = Some(Waiting { message: message.to_owned(), is_persistent });
        let status = of(None, &observed);
        assert_eq!(status.state, Some(State::Running));
        check(&status, ("Progressing", "True", reason, &format!("={message}")));
    }
    observed.plan.refused = vec!["spec.tasks".to_owned()];
    let also = format!(". Also: {message}");
    check(&of(None, &observed), ("Progressing", "False", "ChangeRefused", &also));
}

#[test]
fn a_run_of_another_operator_is_reported_as_left_alone() {
    let mut observed = ready();
    observed.live.foreign = Some(Foreign::Operator);
    check(&of(None, &observed), ("Progressing", "True", "StartedByAnotherOperator", "alone"));
    observed.live.foreign = Some(Foreign::Release("agent:9".to_owned()));
    assert_eq!(table(&of(None, &observed))["Progressing"].1, "Running");
    observed.plan.generation = 2;
    let image = "agent image agent:9";
    check(&of(None, &observed), ("Progressing", "False", "ChangeRefused", image));
}

#[test]
fn a_failure_has_the_reason_of_lead_and_kubelet() {
    let ran = |code: i32| Some(json!({ "exitCode": code, "commandRan": true }));
    let ended_by_agent = |code: i32, error: &str, phase: &str| {
        let phase = json!({ "name": phase, "startMilliseconds": 1, "durationMilliseconds": 9 });
        Some(json!({
            "exitCode": code, "commandRan": false, "lastError": error, "phases": [phase],
        }))
    };
    let hook = ended_by_agent(69, "run the hook commands.pre", "hooks");
    let not_run = "the command was not run (exit code 69): run the hook commands.pre; its log: ";
    let late = ended_by_agent(72, "the deadline of 5 seconds has passed", "command");
    let passed =
        "the run was ended (exit code 72): the deadline of 5 seconds has passed; its log: ";
    let stop = ended_by_agent(75, "SIGTERM", "command");
    let stopped = "the run was ended (exit code 75): SIGTERM; its log: ";
    let exited = "=command exited with code 7; its log: kubectl logs --namespace apps hello-0-abcde --container hello";
    let memory = "command exited with code 7: container hello ran out of the memory";
    let (limit, policy) = ("BackoffLimitExceeded", "PodFailurePolicy");
    for (job, code, word, left, reason, expected) in [
        (limit, 7, "Error", ran(7), "CommandFailed", exited),
        (limit, 126, "Error", ran(126), "CommandFailed", "cannot be executed"),
        (limit, 127, "Error", ran(127), "CommandFailed", "not found"),
        (limit, 69, "Error", hook, "HookFailed", not_run),
        (policy, 72, "Error", late, "DeadlineExceeded", passed),
        (limit, 75, "Error", stop, "Stopped", stopped),
        // The agent knows only the exit code of the command.
        (limit, 7, "OOMKilled", ran(7), "OOMKilled", memory),
        (limit, 137, "OOMKilled", None, "OOMKilled", ""),
        ("DeadlineExceeded", 143, "Error", None, "DeadlineExceeded", ""),
    ] {
        let left = left.map(|left| left.to_string());
        let status = failed_for(job, ended(code, word, left.as_deref()));
        check(&status, ("Failed", "True", reason, expected));
        assert_eq!((status.exit_code, status.reason.as_deref()), (Some(code), Some(reason)));
        assert_eq!(table(&status)["Complete"], ("False", "NotComplete"));
    }
}

#[test]
fn the_start_deadline_reports_what_was_awaited() {
    let mut job = ended_job("Failed", "DeadlineExceeded");
    job.annotations_mut().insert(LATE_START_ANNOTATION.to_owned(), "no node".to_owned());
    let status = of(None, &observed(Some(job), None));
    check(&status, ("Failed", "True", "StartDeadlineExceeded", "=no node"));
}

#[test]
fn an_interactive_lead_that_begins_again_has_a_cause() {
    let killed = |word| lead("Failed", ended(137, word, None));
    let begins = |lead, earlier: Option<Pod>, interactive| {
        let mut job = job(0);
        job.spec.as_mut().unwrap().backoff_limit_per_index = Some(6);
        let mut observed = observed(Some(job), lead);
        observed.live.pods.earlier_lead = earlier;
        observed.plan.interactive = interactive;
        of(None, &observed)
    };
    let memory = "=waiting for the lead's pod to start; the lead was replaced, and jobs that are in no archive are \
                  lost: container hello ran out of the memory that its limits allow (exit code 137); \
                  spec.containers[].resources.limits.memory sets them; its log: kubectl logs --namespace apps hello-0-abcde --container hello";
    let status = begins(killed("OOMKilled"), None, true);
    check(&status, ("Progressing", "True", "LeadReplaced", memory));
    let status = begins(lead("Running", running()), Some(killed("Error")), true);
    check(&status, ("Progressing", "False", "Running", "exited with code 137"));
    // The earlier pod is gone.
    let mut again = running_lead();
    let count = flux_contract::invocation::REPLACED_VARIABLES[1].1.to_owned();
    again.annotations_mut().insert(count, "1".to_owned());
    let status = begins(again.clone(), None, true);
    let gone = "it was deleted, or its node was lost";
    check(&status, ("Progressing", "True", "LeadReplaced", gone));
    // The kubelet has restarted the container in the same pod.
    let mut restarted = running_lead();
    let containers = restarted.status.as_mut().unwrap().container_statuses.as_mut().unwrap();
    containers[0].last_state = Some(ended(137, "OOMKilled", None));
    let status = begins(restarted, None, true);
    check(&status, ("Progressing", "True", "LeadReplaced", "ran out of the memory"));
    // No container was started in the earlier pod, or there was no earlier pod.
    let refused = pod("hello-0-abc", "Failed", "other", ended(1, "Error", None));
    for (lead, earlier, interactive) in
        [(running_lead(), Some(refused), true), (running_lead(), None, true), (again, None, false)]
    {
        let status = begins(lead, earlier, interactive);
        check(&status, ("Progressing", "True", "Starting", "brokers"));
    }
}

/// A lead whose broker is not ready yet.
fn running_lead() -> Pod {
    let mut lead = lead("Running", running());
    lead.status.as_mut().unwrap().conditions = None;
    lead
}

#[test]
fn a_disruption_is_reported_with_the_exit_code() {
    let mut taken = lead("Failed", ended(143, "Error", None));
    taken.status.as_mut().unwrap().conditions.as_mut().unwrap().push(PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        message: Some("Eviction API: evicting".to_owned()),
        ..PodCondition::default()
    });
    let status = of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), taken));
    let expected = "143 (Error); the pod was removed: Eviction API: evicting";
    check(&status, ("Failed", "True", "ContainerFailed", expected));
}

#[test]
fn an_eviction_is_the_reason_unless_the_command_had_ended() {
    let limit = "Pod ephemeral local storage usage exceeds the total limit of containers 16Mi.";
    for (left, reason) in [(None, "Evicted"), (Some(COMMAND_FAILED), "CommandFailed")] {
        let mut evicted = lead("Failed", ended(137, "ContainerStatusUnknown", left));
        let status = evicted.status.as_mut().unwrap();
        let containers = status.container_statuses.as_mut().unwrap();
        containers[0].container_id = Some("containerd://1".to_owned());
        (status.reason, status.message) = (Some("Evicted".to_owned()), Some(limit.to_owned()));
        let status = of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), evicted));
        check(&status, ("Failed", "True", reason, limit));
    }
}

#[test]
fn an_exit_code_outlives_the_pod_but_not_the_run() {
    let first = failed(ended(7, "Error", Some(COMMAND_FAILED)));
    let later = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), None);
    let later = of(Some(&first), &later);
    assert_eq!((later.exit_code, later.timeline), (Some(7), first.timeline.clone()));
    assert_eq!(first.timeline.len(), 1);
    let mut again = job(0);
    again.status.as_mut().unwrap().start_time = Some(at(400));
    assert_eq!(of(Some(&first), &observed(Some(again), None)).exit_code, None);
}

#[test]
fn a_finished_run_keeps_its_status_without_pod_and_job() {
    let job = ended_job("Failed", "BackoffLimitExceeded");
    let first = failed(ended(7, "Error", Some(COMMAND_FAILED)));
    let record = RunRecord::of(Some(&job), None, &first, 9, &at(300));
    let mut later = observed(Some(job), None);
    later.record = record;
    assert_eq!(of(Some(&first), &later), first);
    later.live.job = None;
    assert_eq!(of(Some(&first), &later), first);
    // A restored backup has no status: the status is made from the record.
    let restored = of(None, &later);
    assert_eq!((restored.state, restored.exit_code), (Some(State::Failed), Some(7)));
    assert_eq!(message(&restored, "Failed"), message(&first, "Failed"));
    assert_eq!(restored.completion_time, first.completion_time);
}

#[test]
fn a_changed_finished_minicluster_reports_not_run_again() {
    let mut observed = observed(Some(ended_job("Complete", "SuccessPolicy")), None);
    observed.plan.generation = 5;
    let status = of(None, &observed);
    let complete = status.conditions.iter().find(|it| it.type_ == "Complete").unwrap();
    assert_eq!((complete.observed_generation, status.observed_generation), (Some(1), Some(5)));
    assert_eq!(status.reason.as_deref(), Some("CommandSucceeded"));
    observed.plan.refused = vec!["spec.containers[0].command".to_owned()];
    let expected = "=the MiniCluster has finished and is not run again, so the change has no effect: \
                    spec.containers[0].command; delete and create the MiniCluster to run it";
    check(&of(None, &observed), ("Progressing", "False", "NotRunAgain", expected));
    observed.plan.expires = true;
    assert_eq!(table(&of(None, &observed))["Progressing"].1, "Finished");
}

#[test]
fn a_transition_time_moves_only_when_the_condition_flips() {
    let pending = of(None, &observed(Some(job(0)), None));
    let running = at_second(999, Some(&pending), &ready());
    let times = running.conditions.iter().map(|it| (&*it.type_, it.last_transition_time.clone()));
    let times: BTreeMap<_, _> = times.collect();
    assert_eq!((&times["Accepted"], &times["Ready"]), (&at(300), &at(999)));
    assert_eq!(at_second(1_500, Some(&running), &ready()), running);
}

#[test]
fn a_suspended_job_is_suspended() {
    let mut job = job(0);
    job.spec.as_mut().unwrap().suspend = Some(true);
    let mut observed = observed(Some(job), None);
    let ending = of(None, &observed);
    assert_eq!((ending.state, ending.reason.as_deref()), (Some(State::Ending), Some("Suspending")));
    assert_eq!(table(&ending)["Suspended"], ("False", "Suspending"));
    assert_eq!(table(&ending)["Ready"], ("False", "Suspended"));
    let job = observed.live.job.as_mut().unwrap();
    job.status.as_mut().unwrap().active = Some(0);
    let status = of(None, &observed);
    assert_eq!(status.state, Some(State::Suspended));
    assert_eq!(table(&status)["Suspended"], ("True", "JobSuspended"));
    let job = observed.live.job.as_mut().unwrap();
    job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "true".to_owned());
    assert_eq!(table(&of(None, &observed))["Suspended"], ("True", "SuspendedBySpecification"));
    let job = observed.live.job.as_mut().unwrap();
    job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "idle/".to_owned());
    let idle = "=no job needs a pod: `kubectl flux submit` or `kubectl flux resume` starts it again, or a new value \
                of the annotation flux-framework.org/resume";
    check(&of(None, &observed), ("Suspended", "True", "Idle", idle));
    let job = observed.live.job.as_mut().unwrap();
    job.annotations_mut().clear();
    job.labels_mut().insert(QUEUE_LABEL.to_owned(), "team".to_owned());
    job.metadata.uid = Some("u".to_owned());
    let queue = "=waits in the queue team; kubectl describe workloads.kueue.x-k8s.io --selector \
                 kueue.x-k8s.io/job-uid=u shows for what";
    check(&of(None, &observed), ("Suspended", "True", "InQueue", queue));
}

#[test]
fn a_partly_admitted_job_is_reported() {
    let mut job = job(4);
    job.labels_mut().insert(QUEUE_LABEL.to_owned(), "team".to_owned());
    job.annotations_mut().insert(QUEUED_SIZE_ANNOTATION.to_owned(), "6".to_owned());
    let admitted = "the queue team has admitted 4 of 6 pods";
    let status = of(None, &observed(Some(job.clone()), lead("Running", running())));
    assert_eq!((status.state, status.size), (Some(State::Running), 4));
    check(&status, ("Ready", "True", "QuorumReached", &format!("was reached; {admitted}")));
    job.status.as_mut().unwrap().ready = Some(1);
    let status = of(None, &observed(Some(job), None));
    check(
        &status,
        ("Ready", "False", "Starting", &format!("1 of 4 brokers are ready ({admitted})")),
    );
}

#[test]
fn fields_that_are_not_acted_on_are_named() {
    let mut observed = observed(None, None);
    observed.live.alias_conflicts = vec!["web".to_owned()];
    let service = "the Service web";
    check(&of(None, &observed), ("Accepted", "True", "ServiceNameTaken", service));
    observed.plan.not_acted_on = vec!["spec.flux.arch".to_owned()];
    let status = of(None, &observed);
    check(&status, ("Accepted", "True", "FieldsNotActedOn", "spec.flux.arch"));
    check(&status, ("Accepted", "True", "FieldsNotActedOn", service));
}

fn refused() -> Violations {
    let violation = |path: &str| Violation { path: path.to_owned(), message: "bad".to_owned() };
    Violations(vec![violation("spec.size"), violation("spec.tasks")])
}

#[test]
fn an_invalid_specification_names_every_fault() {
    let mut invalid = observed(None, None);
    invalid.plan.violations = Some(refused());
    let status = of(None, &invalid);
    assert_eq!((status.state, status.reason.as_deref()), (Some(State::Invalid), Some("Invalid")));
    assert_eq!(table(&status)["Progressing"], ("False", "Invalid"));
    check(&status, ("Accepted", "False", "Invalid", "=spec.size: bad; spec.tasks: bad"));
    // An invalid edit does not hide the state of the running instance.
    let mut running = ready();
    running.plan.violations = Some(refused());
    let status = of(None, &running);
    assert_eq!((status.state, status.ready_brokers), (Some(State::Running), 4));
    assert_eq!(table(&status)["Accepted"], ("False", "Invalid"));
    assert_eq!(table(&status)["Ready"].0, "True");
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let mut over = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead);
    (over.plan.violations, over.plan.generation) = (Some(refused()), 2);
    let status = of(Some(&status), &over);
    assert_eq!((status.exit_code, status.state), (Some(7), Some(State::Failed)));
    check(&status, ("Failed", "True", "CommandFailed", ""));
    check(&status, ("Accepted", "False", "Invalid", ""));
    check(&status, ("Progressing", "False", "Finished", ""));
}
