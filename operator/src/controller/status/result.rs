//! The result of a run for workflow engines: exit code, and what failed.

use super::facts::Facts;
use crate::controller::observe::pod_view::{Ended, PodView};
use flux_api::crd::{MiniClusterStatus, RunResult};
use flux_contract::{ClusterName, TerminationMessage, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Most bytes of the termination message of a container that the agent does not start.
const OUTPUT_LIMIT: usize = 1024;

/// The result of a run that has ended: from its pods, else from the old status of the run, else only the exit code.
pub(super) fn result(
    old_run: Option<&MiniClusterStatus>,
    runner: &str,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
    exit_code: Option<i32>,
    now: &Time,
) -> Option<RunResult> {
    let end = facts.end()?;
    let well = || lead?.ended.as_ref().filter(|ended| ended.exit_code == 0).map(of_end);
    let found = if end.complete {
        well()
    } else {
        let worker = facts.live.pods.failed_worker.as_ref();
        let worker = || of_pod(runner, &PodView::new(worker?, runner, now));
        lead.and_then(|lead| of_pod(runner, lead)).or_else(worker)
    };
    let kept = || old_run.and_then(|old| old.result.clone());
    let bare = || Some(RunResult { exit_code: exit_code?, ..RunResult::default() });
    found.or_else(kept).or_else(bare)
}

/// The failure in a pod: of its runner, else of another container.
fn of_pod(runner: &str, view: &PodView<'_>) -> Option<RunResult> {
    if let Some(ended) = view.ended.as_ref().filter(|ended| ended.exit_code != 0) {
        let end = of_end(ended);
        let host = end.host.clone().or_else(|| host(runner, view.pod));
        return Some(RunResult { host, container: Some(runner.to_owned()), ..end });
    }
    let (container, end) = view.failed_beside()?;
    let message = end.message.as_deref().unwrap_or_default();
    let read = TerminationMessage::from_json(message);
    let output = match &read {
        Some(message) => message.output.clone().or_else(|| message.last_error.clone()),
        None => Some(message.trim_end().to_owned()),
    };
    Some(RunResult {
        exit_code: end.exit_code,
        signal: read.and_then(|message| message.signal),
        host: host(runner, view.pod),
        container: Some(container.name.clone()),
        jobid: view.ended.as_ref().and_then(jobid),
        output: output.map(|text| end_of(&text).to_owned()).filter(|text| !text.is_empty()),
        ..RunResult::default()
    })
}

/// The result in the runner's termination message.
fn of_end(ended: &Ended) -> RunResult {
    let message = ended.message.clone().unwrap_or_default();
    let task = message.failed_task.unwrap_or_default();
    let is_known = ended.message.as_ref().is_some_and(|message| message.failed_task.is_some());
    RunResult {
        exit_code: ended.exit_code,
        signal: task.signal.or(message.signal),
        rank: i32::try_from(task.rank).ok().filter(|_| is_known),
        host: task.host,
        jobid: message.jobid,
        output: message.output,
        ..RunResult::default()
    }
}

/// Flux's id of the command's job.
pub(super) fn jobid(ended: &Ended) -> Option<String> {
    ended.message.as_ref()?.jobid.clone()
}

fn host(runner: &str, pod: &Pod) -> Option<String> {
    let index = pod.labels().get(labels::COMPLETION_INDEX)?.parse().ok()?;
    Some(ClusterName::new(runner).ok()?.pod_hostname(index))
}

fn end_of(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(OUTPUT_LIMIT))..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::decide::Plan;
    use crate::controller::fixtures::{at, ended, ended_job, job, observed, pod};
    use crate::controller::observe::{Observed, Pods};
    use crate::controller::status::status;
    use k8s_openapi::api::core::v1::ContainerState;
    use serde_json::json;

    fn of(old: Option<&MiniClusterStatus>, type_: &str, pods: Pods) -> MiniClusterStatus {
        let job = Some(ended_job(type_, "PodFailurePolicy"));
        let live = Observed { job, pods, ..Observed::default() };
        let live = live.classified(None, 1, "agent", &at(300));
        let plan = Plan { generation: 1, maximum_size: Some(4), ..Plan::default() };
        status(old, "hello", &Facts { live: &live, plan: &plan, error: None }, at(300))
    }

    fn indexed(index: u32, phase: &str, container: &str, state: ContainerState) -> Pod {
        let mut pod = pod(&format!("hello-{index}-abcde"), phase, container, state);
        let index = (labels::COMPLETION_INDEX.to_owned(), index.to_string());
        pod.metadata.labels = Some([index].into());
        pod
    }

    fn of_lead(type_: &str, code: i32, message: &serde_json::Value) -> MiniClusterStatus {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let lead = indexed(0, phase, "hello", ended(code, "Error", Some(&message.to_string())));
        of(None, type_, Pods { lead: Some(lead), ..Pods::default() })
    }

    #[test]
    fn the_failed_task_is_kept_when_the_pods_are_gone() {
        let status = of_lead(
            "Failed",
            137,
            &json!({
                "exitCode": 137, "commandRan": true, "jobid": "ƒUryWAs", "output": "broken\n",
                "failedTask": { "rank": 2, "host": "hello-1", "signal": 9 },
            }),
        );
        let expected = RunResult {
            exit_code: 137,
            signal: Some(9),
            rank: Some(2),
            host: Some("hello-1".to_owned()),
            container: Some("hello".to_owned()),
            jobid: Some("ƒUryWAs".to_owned()),
            output: Some("broken\n".to_owned()),
        };
        assert_eq!((status.result.as_ref(), status.jobid.as_str()), (Some(&expected), "ƒUryWAs"));
        let failed = status.end().unwrap().message.clone();
        assert!(failed.contains("exit code 137") || failed.contains("code 137"), "{failed}");
        assert!(failed.contains("rank 2 on hello-1"), "{failed}");
        let later = of(Some(&status), "Failed", Pods::default());
        assert_eq!((later.result, later.jobid), (Some(expected), status.jobid));
    }

    #[test]
    fn only_a_run_that_ended_has_a_result() {
        let message = json!({ "exitCode": 0, "commandRan": true, "jobid": "ƒ1" });
        let status = of_lead("Complete", 0, &message);
        let jobid = Some("ƒ1".to_owned());
        let expected = RunResult { jobid, ..RunResult::default() };
        assert_eq!(status.result, Some(expected));
        let gone = of(Some(&status), "Complete", Pods::default());
        assert_eq!((gone.result, gone.jobid), (status.result, status.jobid));
        let unseen = of(None, "Complete", Pods::default());
        assert_eq!(unseen.result, Some(RunResult::default()));
        let (live, plan) = (observed(Some(job(4))), Plan::default());
        let facts = Facts { live: &live, plan: &plan, error: None };
        assert_eq!(super::super::status(None, "hello", &facts, at(300)).result, None);
    }

    #[test]
    fn another_container_that_failed_is_named_with_what_it_left() {
        let left = format!("{}\nno space\n", "x".repeat(2000));
        let worker = indexed(3, "Failed", "proxy", ended(5, "Error", Some(&left)));
        let status = of(None, "Failed", Pods { failed_worker: Some(worker), ..Pods::default() });
        let result = status.result.unwrap();
        assert_eq!((result.exit_code, result.host.as_deref()), (5, Some("hello-3")));
        assert_eq!(result.container.as_deref(), Some("proxy"));
        let output = result.output.unwrap();
        assert!(output.len() == OUTPUT_LIMIT && output.ends_with("no space"), "{output}");
        assert_eq!(status.exit_code, None);
    }
}
