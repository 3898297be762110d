//! Observation in, status out.

use super::*;
use crate::cluster::validate::{Violation, Violations};
use crate::controller::decide::Plan;
use crate::controller::decide::ended_run::EndedRun;
use crate::controller::decide::mode::{Mode, Unmanaged};
use crate::controller::error::Verb;
use crate::controller::fixtures::{
    at, built, cluster, ended, ended_job, job, pod, running, table, waiting,
};
use crate::controller::kube_ext::{CAUSE_ANNOTATION, SUSPENDED_ANNOTATION};
use crate::controller::observe::waiting::Waiting;
use crate::controller::observe::{Live, Pods};
use crate::controller::schedulers::queue::Queue;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, Pod, PodCondition};
use kube::ResourceExt as _;
use serde_json::json;

/// What was observed and decided.
#[derive(Default)]
struct Observed {
    live: Live,
    plan: Plan,
    error: Option<Error>,
}

fn observed(job: Option<Job>, lead: impl Into<Option<Pod>>) -> Observed {
    let live = Live { job, pods: Pods { lead: lead.into(), ..Pods::default() }, ..Live::default() };
    let plan = Plan { generation: 1, maximum_size: Some(4), ..Plan::default() };
    Observed { live, plan, error: None }
}

fn lead(phase: &str, state: ContainerState) -> Pod {
    pod("hello-0-abcde", phase, "hello", state)
}

fn of(old: Option<&MiniClusterStatus>, observed: &Observed) -> MiniClusterStatus {
    at_second(300, old, observed)
}

fn at_second(
    second: i64,
    old: Option<&MiniClusterStatus>,
    observed: &Observed,
) -> MiniClusterStatus {
    let Observed { live, plan, error } = observed;
    status(old, "hello", &Facts { live, plan, error: error.as_ref() }, at(second))
}

/// Of a Job that has failed, whose lead's container is in `state`.
fn failed(state: ContainerState) -> MiniClusterStatus {
    of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead("Failed", state)))
}

fn message<'status>(status: &'status MiniClusterStatus, type_: &str) -> &'status str {
    &status.conditions.iter().find(|condition| condition.type_ == type_).unwrap().message
}

const COMMAND_FAILED: &str = r#"{"exitCode":7,"commandRan":true,"phases":[{"name":"command","startMilliseconds":5,"durationMilliseconds":9}]}"#;

#[test]
fn without_pods_the_state_is_pending() {
    let status = of(None, &observed(Some(job(0)), None));
    assert_eq!(status.state, Some(State::Pending));
    assert_eq!(table(&status)["Progressing"], ("True", "Starting"));
    assert_eq!((status.size, status.ready_brokers, status.maximum_size), (4, 0, 4));
    assert_eq!(status.selector, "hpa-selector=hello");
}

#[test]
fn a_job_that_gets_no_pods_says_where_to_look() {
    let mut refused = job(0);
    refused.status.as_mut().unwrap().active = Some(0);
    let status = of(None, &observed(Some(refused), None));
    assert!(message(&status, "Progressing").contains("kubectl describe job hello"));
}

#[test]
fn an_image_that_cannot_be_pulled_is_named() {
    let lead = lead("Pending", waiting("ImagePullBackOff"));
    let status = of(None, &observed(Some(job(0)), lead));
    assert_eq!(status.state, Some(State::Pending));
    let message = message(&status, "Progressing");
    assert!(message.contains("hello-0-abcde") && message.contains("ImagePullBackOff"), "{message}");
}

#[test]
fn a_lead_that_is_not_ready_is_starting() {
    let mut pod = lead("Running", running());
    pod.status.as_mut().unwrap().conditions = None;
    let status = of(None, &observed(Some(job(2)), pod));
    assert_eq!(status.state, Some(State::Starting));
    assert_eq!(message(&status, "Progressing"), "2 of 4 brokers are ready");
}

#[test]
fn a_ready_lead_is_running() {
    let status = of(None, &observed(Some(job(4)), lead("Running", running())));
    assert_eq!(status.state, Some(State::Running));
    assert_eq!(status.ready_brokers, 4);
    assert_eq!(table(&status)["Ready"], ("True", "QuorumReached"));
    assert_eq!(table(&status)["Complete"], ("False", "NotFinished"));
    assert_eq!(message(&status, "Ready"), "the lead is ready: the quorum was reached");
}

#[test]
fn who_misses_a_broker_is_told_where_to_look() {
    let status = of(None, &observed(Some(job(3)), lead("Running", running())));
    assert_eq!(table(&status)["Ready"], ("True", "QuorumReached"));
    let told = "3 of 4 brokers are ready: the logs of the other pods say why";
    assert!(message(&status, "Ready").ends_with(told), "{}", message(&status, "Ready"));
}

/// A lead that runs, beside a container that ended with 3.
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
fn a_sidecar_that_fails_is_told_and_takes_nothing_from_a_ready_lead() {
    for (left, said) in [
        (r#"{"exitCode":3,"commandRan":true,"lastError":"the agent's word"}"#, "the agent's word"),
        ("a program's\nlast word\n", "last word"),
    ] {
        let status = of(None, &observed(Some(job(3)), lead_beside_a_failure(left)));
        assert_eq!(status.state, Some(State::Running));
        assert_eq!((table(&status)["Ready"].0, status.ready_brokers), ("True", 3));
        let message = message(&status, "Ready");
        let expected = format!("; but its container beside exited with code 3: {said}");
        assert!(message.ends_with(&expected), "{message}");
    }
    let mut starting = lead_beside_a_failure("");
    starting.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = false;
    let status = of(None, &observed(Some(job(3)), starting));
    assert_eq!(status.state, Some(State::Starting));
}

#[test]
fn a_complete_job_is_complete_with_exit_code_0() {
    let lead =
        lead("Succeeded", ended(0, "Completed", Some(r#"{"exitCode":0,"commandRan":true}"#)));
    let status = of(None, &observed(Some(ended_job("Complete", "SuccessPolicy")), lead));
    assert_eq!(status.state, Some(State::Complete));
    assert_eq!((status.exit_code, status.ready_brokers), (Some(0), 0));
    assert_eq!(status.completion_time, Some(at(200)));
    assert_eq!(table(&status)["Complete"].0, "True");
    assert_eq!(table(&status)["Failed"], ("False", "NotFailed"));
    assert_eq!(status.reason.as_deref(), Some("CommandSucceeded"));
}

#[test]
fn an_instance_that_was_shut_down_ran_no_command() {
    let mut observed = observed(Some(ended_job("Complete", "SuccessPolicy")), None);
    observed.plan.interactive = true;
    let status = of(None, &observed);
    assert_eq!(table(&status)["Complete"], ("True", "ShutDown"));
    assert_eq!(message(&status, "Complete"), "the instance was shut down");
}

#[test]
fn no_condition_is_without_a_message() {
    for job in [job(0), job(4), ended_job("Complete", "SuccessPolicy"), ended_job("Failed", "X")] {
        for condition in of(None, &observed(Some(job), None)).conditions {
            assert!(!condition.message.is_empty(), "{condition:?}");
        }
    }
}

#[test]
fn exit_codes_of_commands_that_cannot_be_run_are_explained() {
    for (code, meaning) in [(126, "cannot be executed"), (127, "not found")] {
        let text = format!(r#"{{"exitCode":{code},"commandRan":true}}"#);
        let status = failed(ended(code, "Error", Some(&text)));
        assert!(message(&status, "Failed").contains(meaning));
    }
}

#[test]
fn a_run_that_the_agent_ended_while_the_command_ran_is_not_called_not_run() {
    let text = r#"{"exitCode":75,"commandRan":false,"lastError":"SIGTERM","phases":[{"name":"command","startMilliseconds":5,"durationMilliseconds":9}]}"#;
    let status = failed(ended(75, "Error", Some(text)));
    assert_eq!(table(&status)["Failed"], ("True", "Stopped"));
    assert!(message(&status, "Failed").starts_with("the run was ended (exit code 75): SIGTERM"));
}

/// A lead whose runner began at second 200 and passed its startup probe, and that is not ready since
/// second `since`.
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
    assert_eq!(table(&status)["Progressing"], ("False", "Degraded"));
    assert_eq!(table(&status)["Ready"], ("False", "LeadNotReady"));
    assert!(message(&status, "Progressing").ends_with("any more: 3 of 4 brokers are ready"));
}

/// Between the first answer of the startup probe and of the readiness probe the pod is not ready
/// since it was made.
#[test]
fn a_lead_whose_runner_has_ended_ends_though_its_pod_still_runs() {
    let lead = || lead("Running", ended(0, "Completed", None));
    let status = of(None, &observed(Some(job(2)), lead()));
    assert_eq!(status.state, Some(State::Ending));
    let mut restarts = job(2);
    let template = &mut restarts.spec.as_mut().unwrap().template;
    template.spec.get_or_insert_default().restart_policy = Some("OnFailure".to_owned());
    let status = of(None, &observed(Some(restarts), lead()));
    assert_eq!(status.state, Some(State::Starting), "it is started again");
}

#[test]
fn a_lead_that_is_ready_for_the_first_time_has_lost_nothing() {
    let status = of(None, &observed(Some(job(0)), lead_not_ready_since(150)));
    assert_eq!((status.state, table(&status)["Ready"].0), (Some(State::Running), "True"));
}

#[test]
fn a_lead_that_is_about_to_end_well_is_running_until_it_has_ended() {
    let status = of(None, &observed(Some(job(0)), lead_not_ready_since(295)));
    assert_eq!(status.state, Some(State::Running));
    assert_eq!((table(&status)["Ready"].0, status.ready_brokers), ("True", 1));
    let lead = lead("Failed", ended(137, "Error", None));
    let status = of(Some(&status), &observed(Some(job(0)), lead));
    assert_eq!((status.state, status.exit_code), (Some(State::Ending), Some(137)));
}

#[test]
fn what_a_worker_waits_for_is_told_of_a_start_and_of_a_run() {
    let waiting = |lasts| Waiting { message: "pod hello-3-x has no node: full".to_owned(), lasts };
    let mut observed = observed(Some(job(3)), lead("Running", running()));
    for (lasts, reason) in [(false, "Starting"), (true, "Waiting")] {
        observed.live.pods.waiting = Some(waiting(lasts));
        let status = of(None, &observed);
        assert_eq!(status.state, Some(State::Running));
        assert_eq!(table(&status)["Progressing"], ("True", reason));
        assert_eq!(message(&status, "Progressing"), "pod hello-3-x has no node: full");
    }
    observed.plan.refused = vec!["spec.tasks".to_owned()];
    let status = of(None, &observed);
    assert_eq!(table(&status)["Progressing"].1, "ChangeRefused");
    assert!(message(&status, "Progressing").ends_with(". Also: pod hello-3-x has no node: full"));
}

#[test]
fn what_another_operator_started_is_said_to_be_left_alone() {
    let mut observed = observed(Some(job(4)), lead("Running", running()));
    observed.plan.mode = Mode::Unmanaged(Unmanaged::AnotherOperator);
    let status = of(None, &observed);
    assert_eq!(table(&status)["Progressing"], ("True", "StartedByAnotherOperator"));
    assert_eq!(status.state, Some(State::Running));
}

#[test]
fn a_change_of_what_another_release_started_is_refused_with_its_image() {
    let mut observed = observed(Some(job(4)), lead("Running", running()));
    observed.plan.mode = Mode::Unmanaged(Unmanaged::AnotherRelease("agent:9".to_owned()));
    assert_eq!(table(&of(None, &observed))["Progressing"].1, "Running");
    observed.plan.generation = 2;
    let status = of(None, &observed);
    assert_eq!(table(&status)["Progressing"], ("False", "ChangeRefused"));
    assert!(message(&status, "Progressing").contains("agent image agent:9"));
}

#[test]
fn a_failed_command_is_told_with_its_code() {
    let status = failed(ended(7, "Error", Some(COMMAND_FAILED)));
    assert_eq!(status.state, Some(State::Failed));
    assert_eq!(status.exit_code, Some(7));
    assert_eq!(table(&status)["Failed"], ("True", "CommandFailed"));
    let expected = "command exited with code 7; its log: kubectl logs --namespace apps hello-0-abcde \
                    --container hello";
    assert_eq!(message(&status, "Failed"), expected);
    assert_eq!(status.reason.as_deref(), Some("CommandFailed"));
    assert_eq!(table(&status)["Complete"], ("False", "NotComplete"));
    assert_eq!(status.timeline.len(), 1);
}

#[test]
fn a_command_that_was_never_run_is_told_with_the_agents_reason() {
    let text = r#"{"exitCode":69,"commandRan":false,"lastError":"run the hook commands.pre"}"#;
    let status = failed(ended(69, "Error", Some(text)));
    assert_eq!(table(&status)["Failed"], ("True", "HookFailed"));
    let expected = "the command was not run (exit code 69): run the hook commands.pre; its log: ";
    assert!(message(&status, "Failed").starts_with(expected));
}

#[test]
fn a_kill_for_memory_is_told_though_the_agent_has_seen_only_the_commands_code() {
    let command = failed(ended(7, "OOMKilled", Some(COMMAND_FAILED)));
    assert!(message(&command, "Failed").starts_with("command exited with code 7: "));
    let lead = failed(ended(137, "OOMKilled", None));
    assert_eq!((command.exit_code, lead.exit_code), (Some(7), Some(137)));
    for status in [command, lead] {
        assert_eq!(table(&status)["Failed"], ("True", "OOMKilled"));
    }
}

#[test]
fn a_failed_worker_is_named() {
    let text = r#"{"exitCode":68,"commandRan":false,"lastError":"refused"}"#;
    let worker = pod("hello-2-xyz", "Failed", "hello", ended(68, "Error", Some(text)));
    let mut observed = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), None);
    observed.live.pods.failed_worker = Some(worker);
    let status = of(None, &observed);
    assert_eq!(table(&status)["Failed"], ("True", "LeadUnreachable"));
    assert!(message(&status, "Failed").starts_with("pod hello-2-xyz: "));
    assert_eq!(status.exit_code, None);
}

#[test]
fn a_passed_deadline_is_the_reason_whatever_the_lead_left() {
    let lead = lead("Failed", ended(143, "Error", None));
    let status = of(None, &observed(Some(ended_job("Failed", "DeadlineExceeded")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "DeadlineExceeded"));
}

/// The Job that runs a command once, with a lead whose container has ended like this.
fn lost(interactive: bool, state: ContainerState) -> MiniClusterStatus {
    let mut job = job(0);
    job.spec.as_mut().unwrap().backoff_limit_per_index = Some(6);
    let mut observed = observed(Some(job), lead("Failed", state));
    observed.plan.interactive = interactive;
    of(None, &observed)
}

#[test]
fn a_lost_lead_comes_back_where_people_end_the_run() {
    for code in [2, 75, 137] {
        assert_eq!(lost(true, ended(code, "Error", None)).state, Some(State::Pending));
        assert_eq!(lost(false, ended(code, "Error", None)).state, Some(State::Ending));
    }
    assert_eq!(lost(true, ended(1, "Error", None)).state, Some(State::Ending));
}

#[test]
fn who_took_a_pod_away_is_told_with_its_end() {
    let mut taken = lead("Failed", ended(143, "Error", None));
    taken.status.as_mut().unwrap().conditions.as_mut().unwrap().push(PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        message: Some("Eviction API: evicting".to_owned()),
        ..PodCondition::default()
    });
    let status = of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), taken));
    let text = message(&status, "Failed");
    assert!(text.contains("143") && text.contains("Eviction API: evicting"), "{text}");
}

#[test]
fn a_pod_that_used_more_than_it_may_is_told_as_evicted_unless_its_command_had_ended() {
    let limit = "Pod ephemeral local storage usage exceeds the total limit of containers 16Mi.";
    let end = |message| {
        let mut evicted = lead("Failed", ended(137, "ContainerStatusUnknown", message));
        let status = evicted.status.as_mut().unwrap();
        (status.reason, status.message) = (Some("Evicted".to_owned()), Some(limit.to_owned()));
        of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), evicted))
    };
    let status = end(None);
    assert_eq!(table(&status)["Failed"], ("True", "Evicted"));
    assert!(message(&status, "Failed").contains(limit), "{}", message(&status, "Failed"));
    let status = end(Some(COMMAND_FAILED));
    assert_eq!(table(&status)["Failed"], ("True", "CommandFailed"));
    assert!(message(&status, "Failed").contains(limit), "{}", message(&status, "Failed"));
}

#[test]
fn a_lead_whose_pod_is_gone_is_told_by_the_code_that_the_job_has_noted() {
    let end_by = |reason: &str, pod: &str, code: i32, rule: usize| {
        let mut job = ended_job("Failed", reason);
        let policy = built(&cluster(&json!({})), 1).job.spec.unwrap().pod_failure_policy;
        job.spec.as_mut().unwrap().pod_failure_policy = policy;
        let conditions = job.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].message = Some(format!(
            "Container hello for pod default/{pod} failed with exit code {code} matching FailJob rule at index {rule}"
        ));
        let status = of(None, &observed(Some(job), None));
        (status.exit_code, table(&status)["Failed"].1.to_owned())
    };
    let end = |pod: &str, code: i32| end_by("PodFailurePolicy", pod, code, 1);
    assert_eq!(end("hello-0-abcde", 7), (Some(7), "CommandFailed".to_owned()));
    assert_eq!(end("hello-0-abcde", 69), (Some(69), "HookFailed".to_owned()));
    assert_eq!(end("hello-1-abcde", 73), (None, "PodFailurePolicy".to_owned()));
    // Words that do not agree with the rules of the Job are not believed.
    assert_eq!(end("hello-0-abcde", 75), (None, "PodFailurePolicy".to_owned()));
    for rule in [0, 2, 9] {
        assert_eq!(end_by("PodFailurePolicy", "hello-0-abcde", 7, rule).0, None, "{rule}");
    }
    let other = end_by("BackoffLimitExceeded", "hello-0-abcde", 7, 1);
    assert_eq!(other, (None, "BackoffLimitExceeded".to_owned()));
}

#[test]
fn a_deadline_that_the_lead_kept_is_told_in_its_words() {
    let text = r#"{"exitCode":72,"commandRan":false,"lastError":"the deadline of 5 seconds has passed",
        "phases":[{"name":"command","startMilliseconds":1,"durationMilliseconds":5000}]}"#;
    let lead = lead("Failed", ended(72, "Error", Some(text)));
    let status = of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "DeadlineExceeded"));
    let told = message(&status, "Failed");
    let expected =
        "the run was ended (exit code 72): the deadline of 5 seconds has passed; its log: ";
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(status.exit_code, Some(72));
}

#[test]
fn a_failure_is_not_told_before_the_leads_exit_code_is_known() {
    let lead = lead("Running", running());
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(status.state, Some(State::Ending));
    assert_eq!(table(&status)["Failed"], ("False", "NotFinished"));
}

#[test]
fn an_exit_code_outlives_the_leads_pod() {
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let failed = Some(ended_job("Failed", "BackoffLimitExceeded"));
    let first = of(None, &observed(failed.clone(), lead));
    let later = of(Some(&first), &observed(failed, None));
    assert_eq!(later.exit_code, Some(7));
    assert_eq!(later.timeline, first.timeline);
}

#[test]
fn a_new_run_begins_without_the_exit_code_of_the_last() {
    let first = failed(ended(7, "Error", Some(COMMAND_FAILED)));
    let mut again = job(0);
    again.status.as_mut().unwrap().start_time = Some(at(400));
    let mut observed = observed(Some(again), None);
    observed.plan.generation = 2;
    assert_eq!(of(Some(&first), &observed).exit_code, None);
}

/// The note of the run that `status` tells of.
fn note(status: &MiniClusterStatus) -> EndedRun {
    EndedRun::of(&ended_job("Failed", "BackoffLimitExceeded"), status, 9).unwrap()
}

#[test]
fn a_finished_run_whose_job_was_deleted_stays_as_it_was() {
    let first = failed(ended(7, "Error", Some(COMMAND_FAILED)));
    let mut later = observed(None, None);
    later.plan.mode = Mode::Finished(Some(note(&first)));
    assert_eq!(of(Some(&first), &later), first);
    // From a backup that has no status: the status is made from the note.
    let restored = of(None, &later);
    assert_eq!((restored.state, restored.exit_code), (Some(State::Failed), Some(7)));
    assert_eq!(message(&restored, "Failed"), message(&first, "Failed"));
    assert_eq!(restored.completion_time, first.completion_time);
}

#[test]
fn a_failure_outlives_the_pod_that_told_it() {
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let mut observed = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead);
    let first = of(None, &observed);
    observed.live.pods.lead = None;
    observed.plan.mode = Mode::Finished(Some(note(&first)));
    assert_eq!(of(Some(&first), &observed), first);
}

#[test]
fn a_change_of_what_has_finished_runs_nothing_and_says_so() {
    let mut observed = observed(Some(ended_job("Complete", "SuccessPolicy")), None);
    observed.plan.generation = 5;
    let status = of(None, &observed);
    let complete = status.conditions.iter().find(|it| it.type_ == "Complete").unwrap();
    assert_eq!((complete.observed_generation, status.observed_generation), (Some(1), Some(5)));
    assert_eq!(table(&status)["Progressing"], ("False", "NotRunAgain"));
    assert_eq!(status.reason.as_deref(), Some("CommandSucceeded"));
    observed.plan.refused = vec!["spec.containers[0].command".to_owned()];
    let expected = "nothing was run: the MiniCluster has finished, and what was changed since has no \
                    effect: spec.containers[0].command; delete and create the MiniCluster to run it";
    assert_eq!(message(&of(None, &observed), "Progressing"), expected);
    observed.plan.expires = true;
    assert_eq!(table(&of(None, &observed))["Progressing"].1, "Finished");
}

#[test]
fn the_same_observation_gives_the_same_status_at_any_time() {
    let observed = observed(Some(job(4)), lead("Running", running()));
    let first = of(None, &observed);
    let later = at_second(999, Some(&first), &observed);
    assert_eq!(later, first);
}

#[test]
fn a_transition_time_moves_only_when_the_condition_flips() {
    let first = of(None, &observed(Some(job(0)), None));
    let ready = observed(Some(job(4)), lead("Running", running()));
    let later = at_second(999, Some(&first), &ready);
    let time = |status: &MiniClusterStatus, type_: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == type_);
        found.unwrap().last_transition_time.clone()
    };
    assert_eq!(time(&later, "Accepted"), at(300));
    assert_eq!(time(&later, "Ready"), at(999));
}

#[test]
fn a_refused_job_is_told_with_the_servers_words() {
    let mut observed = observed(None, None);
    let refused = kube::core::Status::failure("exceeded quota", "Forbidden").with_code(403);
    let refused = kube::Error::Api(Box::new(refused));
    observed.error = Some(Error::of(Verb::Apply, "Job", "hello")(refused));
    let status = of(None, &observed);
    assert_eq!(status.state, Some(State::Pending));
    assert_eq!(table(&status)["Progressing"], ("False", "ApplyFailed"));
    assert_eq!(message(&status, "Progressing"), "apply Job \"hello\": exceeded quota");
}

#[test]
fn a_suspended_job_is_suspended() {
    let mut job = job(0);
    job.spec.as_mut().unwrap().suspend = Some(true);
    let ending = of(None, &observed(Some(job.clone()), None));
    assert_eq!((ending.state, ending.reason.as_deref()), (Some(State::Ending), Some("Suspending")));
    assert_eq!(table(&ending)["Suspended"], ("False", "Suspending"));
    job.status.as_mut().unwrap().active = Some(0);
    let mut gone = observed(Some(job), None);
    let status = of(None, &gone);
    assert_eq!(status.state, Some(State::Suspended));
    assert_eq!(table(&status)["Suspended"], ("True", "JobSuspended"));
    let job = gone.live.job.as_mut().unwrap();
    job.annotations_mut().insert(SUSPENDED_ANNOTATION.to_owned(), "true".to_owned());
    assert_eq!(table(&of(None, &gone))["Suspended"], ("True", "SuspendedBySpecification"));
    let says = Some("insufficient quota".to_owned());
    gone.live.queue = Some(Queue { name: "team".to_owned(), says });
    let status = of(None, &gone);
    assert_eq!(table(&status)["Suspended"], ("True", "InQueue"));
    assert_eq!(message(&status, "Suspended"), "waits in the queue team: insufficient quota");
}

#[test]
fn a_lead_that_a_suspension_took_is_no_end() {
    let mut observed = observed(Some(job(0)), lead("Failed", ended(75, "Error", None)));
    assert_eq!(of(None, &observed).state, Some(State::Ending));
    observed.live.pods.lead.as_mut().unwrap().metadata.deletion_timestamp = Some(at(150));
    let resumed = of(None, &observed);
    assert_eq!((resumed.state, resumed.exit_code), (Some(State::Pending), None));
}

#[test]
fn a_run_that_did_not_start_in_time_says_what_it_waited_for() {
    let mut job = ended_job("Failed", "DeadlineExceeded");
    job.annotations_mut().insert(CAUSE_ANNOTATION.to_owned(), "no node".to_owned());
    let status = of(None, &observed(Some(job), None));
    assert_eq!(table(&status)["Failed"], ("True", "StartDeadlineExceeded"));
    assert_eq!(message(&status, "Failed"), "no node");
}

#[test]
fn fields_that_are_not_acted_on_are_named() {
    let mut observed = observed(None, None);
    observed.plan.acceptance = Acceptance::Accepted(vec!["spec.flux.arch".to_owned()]);
    let status = of(None, &observed);
    assert_eq!(table(&status)["Accepted"], ("True", "FieldsNotActedOn"));
    assert!(message(&status, "Accepted").contains("spec.flux.arch"));
}

#[test]
fn a_short_name_that_somebody_else_has_is_told() {
    let mut observed = observed(None, None);
    observed.live.names_taken = vec!["web".to_owned()];
    let status = of(None, &observed);
    assert_eq!(table(&status)["Accepted"], ("True", "ServiceNameTaken"));
    assert!(message(&status, "Accepted").contains("the Service web"));
}

fn refused() -> Acceptance {
    let violation = |path: &str| Violation { path: path.to_owned(), message: "bad".to_owned() };
    Acceptance::Refused(Violations(vec![violation("spec.size"), violation("spec.tasks")]))
}

#[test]
fn an_invalid_specification_names_every_fault() {
    let mut observed = observed(None, None);
    observed.plan.acceptance = refused();
    let status = of(None, &observed);
    assert_eq!(status.state, Some(State::Invalid));
    assert_eq!(status.reason.as_deref(), Some("Invalid"));
    assert_eq!(table(&status)["Accepted"], ("False", "Invalid"));
    assert_eq!(table(&status)["Progressing"], ("False", "Invalid"));
    assert_eq!(message(&status, "Accepted"), "spec.size: bad; spec.tasks: bad");
}

#[test]
fn an_invalid_change_of_what_runs_hides_nothing_of_the_run() {
    let mut running = observed(Some(job(4)), lead("Running", running()));
    running.plan.acceptance = refused();
    let status = of(None, &running);
    assert_eq!((status.state, status.ready_brokers), (Some(State::Running), 4));
    assert_eq!(table(&status)["Accepted"], ("False", "Invalid"));
    assert_eq!(table(&status)["Ready"].0, "True");
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let mut over = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead);
    (over.plan.acceptance, over.plan.generation) = (refused(), 2);
    let status = of(Some(&status), &over);
    assert_eq!((status.exit_code, status.state), (Some(7), Some(State::Failed)));
    assert_eq!(table(&status)["Failed"], ("True", "CommandFailed"));
    assert_eq!(table(&status)["Accepted"], ("False", "Invalid"));
    assert_eq!(table(&status)["Progressing"], ("False", "Finished"));
}
