//! Observation in, status out.

use super::*;
use crate::cluster::Violation;
use crate::controller::fixtures::{
    at, cluster, ended, ended_job, job, pod, running, table, waiting,
};
use crate::controller::observe::Trouble;
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use serde_json::json;

fn observed(job: Option<Job>, lead: impl Into<Option<Pod>>) -> Observed {
    let lead = lead.into();
    Observed { generation: 1, job, lead, maximum_size: 4, ..Observed::default() }
}

fn lead(phase: &str, state: ContainerState) -> Pod {
    pod("hello-0-abcde", phase, "hello", state)
}

fn of(old: Option<&MiniClusterStatus>, observed: &Observed) -> MiniClusterStatus {
    status(old, &cluster(&json!({})), observed, at(300))
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
}

#[test]
fn a_failed_command_is_told_with_its_code() {
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(status.state, Some(State::Failed));
    assert_eq!(status.exit_code, Some(7));
    assert_eq!(table(&status)["Failed"], ("True", "CommandFailed"));
    assert_eq!(message(&status, "Failed"), "command exited with code 7");
    assert_eq!(status.timeline.len(), 1);
}

#[test]
fn a_command_that_was_never_run_is_told_with_the_agents_reason() {
    let text = r#"{"exitCode":69,"commandRan":false,"lastError":"run the hook commands.pre"}"#;
    let lead = lead("Failed", ended(69, "Error", Some(text)));
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "HookFailed"));
    assert!(message(&status, "Failed").ends_with(": run the hook commands.pre"));
}

#[test]
fn a_lead_killed_for_its_memory_is_told_so() {
    let lead = lead("Failed", ended(137, "OOMKilled", None));
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "OOMKilled"));
    assert_eq!(status.exit_code, Some(137));
}

#[test]
fn a_command_killed_for_its_memory_is_told_so_though_the_agent_has_seen_only_its_code() {
    let lead = lead("Failed", ended(7, "OOMKilled", Some(COMMAND_FAILED)));
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "OOMKilled"));
    assert!(message(&status, "Failed").starts_with("command exited with code 7: "));
    assert_eq!(status.exit_code, Some(7));
}

#[test]
fn a_failed_worker_is_named() {
    let text = r#"{"exitCode":68,"commandRan":false,"lastError":"refused"}"#;
    let worker = pod("hello-2-xyz", "Failed", "hello", ended(68, "Error", Some(text)));
    let mut observed = observed(Some(ended_job("Failed", "BackoffLimitExceeded")), None);
    observed.failed_worker = Some(worker);
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

#[test]
fn a_deadline_that_the_lead_kept_is_told_in_its_words() {
    let text =
        r#"{"exitCode":72,"commandRan":false,"lastError":"the deadline of 5 seconds has passed"}"#;
    let lead = lead("Failed", ended(72, "Error", Some(text)));
    let status = of(None, &observed(Some(ended_job("Failed", "PodFailurePolicy")), lead));
    assert_eq!(table(&status)["Failed"], ("True", "DeadlineExceeded"));
    assert_eq!(message(&status, "Failed"), "the deadline of 5 seconds has passed");
    assert_eq!(status.exit_code, Some(72));
}

#[test]
fn a_failure_is_not_told_before_the_leads_exit_code_is_known() {
    let lead = lead("Running", running());
    let status = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(status.state, Some(State::Running));
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
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let first = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    let mut again = job(0);
    again.status.as_mut().unwrap().start_time = Some(at(400));
    let mut observed = observed(Some(again), None);
    observed.generation = 2;
    assert_eq!(of(Some(&first), &observed).exit_code, None);
}

#[test]
fn a_finished_run_whose_job_was_deleted_stays_as_it_was() {
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let first = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    assert_eq!(finished_generation(&first), Some(1));
    assert_eq!(of(Some(&first), &observed(None, None)), first);
}

#[test]
fn a_run_belongs_to_the_generation_it_was_started_from() {
    let mut observed = observed(Some(ended_job("Complete", "SuccessPolicy")), None);
    observed.generation = 5;
    let status = of(None, &observed);
    assert_eq!(finished_generation(&status), Some(1));
    assert_eq!(status.observed_generation, Some(5));
}

#[test]
fn the_same_observation_gives_the_same_status_at_any_time() {
    let observed = observed(Some(job(4)), lead("Running", running()));
    let first = of(None, &observed);
    let later = status(Some(&first), &cluster(&json!({})), &observed, at(999));
    assert_eq!(later, first);
}

#[test]
fn a_transition_time_moves_only_when_the_condition_flips() {
    let first = of(None, &observed(Some(job(0)), None));
    let ready = observed(Some(job(4)), lead("Running", running()));
    let later = status(Some(&first), &cluster(&json!({})), &ready, at(999));
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
    observed.trouble = Some(Trouble { reason: "ApplyFailed", message: "quota".to_owned() });
    let status = of(None, &observed);
    assert_eq!(status.state, Some(State::Pending));
    assert_eq!(table(&status)["Progressing"], ("False", "ApplyFailed"));
    assert_eq!(message(&status, "Progressing"), "quota");
}

#[test]
fn a_refused_change_is_told_while_the_job_exists() {
    let mut observed = observed(Some(job(4)), lead("Running", running()));
    observed.refused = vec!["spec.containers[0].image".to_owned()];
    let status = of(None, &observed);
    assert_eq!(table(&status)["Progressing"], ("False", "ChangeRefused"));
    assert_eq!(status.state, Some(State::Running));
}

#[test]
fn a_suspended_job_is_suspended() {
    let mut job = job(0);
    job.spec.as_mut().unwrap().suspend = Some(true);
    let status = of(None, &observed(Some(job), None));
    assert_eq!(status.state, Some(State::Suspended));
    assert_eq!(table(&status)["Suspended"].0, "True");
}

#[test]
fn fields_that_are_not_acted_on_are_named() {
    let mut cluster = cluster(&json!({}));
    cluster.not_acted_on = vec!["spec.flux.arch".to_owned()];
    let status = status(None, &cluster, &observed(None, None), at(1));
    assert_eq!(table(&status)["Accepted"], ("True", "FieldsNotActedOn"));
    assert!(message(&status, "Accepted").contains("spec.flux.arch"));
}

#[test]
fn an_invalid_specification_names_every_fault() {
    let violation = |path: &str| Violation { path: path.to_owned(), message: "bad".to_owned() };
    let violations = Violations(vec![violation("spec.size"), violation("spec.tasks")]);
    let status = invalid(None, "hello", 1, &violations, at(1));
    assert_eq!(status.state, Some(State::Invalid));
    assert_eq!(table(&status)["Accepted"], ("False", "Invalid"));
    assert_eq!(message(&status, "Accepted"), "spec.size: bad; spec.tasks: bad");
}

#[test]
fn an_invalid_change_leaves_what_is_known_of_the_run() {
    let lead = lead("Failed", ended(7, "Error", Some(COMMAND_FAILED)));
    let first = of(None, &observed(Some(ended_job("Failed", "BackoffLimitExceeded")), lead));
    let violations = Violations(vec![]);
    let status = invalid(Some(&first), "hello", 2, &violations, at(1));
    assert_eq!((status.exit_code, status.state), (Some(7), Some(State::Failed)));
    assert_eq!(table(&status)["Failed"], ("True", "CommandFailed"));
}
