//! The result of a run for workflow engines: exit code, and what failed.

use super::facts::Facts;
use crate::controller::observe::pod_view::{Ended, PodView};
use flux_api::crd::{JobNumbers, MiniClusterStatus, RunResult};
use flux_contract::{ClusterName, TerminationMessage, labels};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;

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
    let jobs = lead.and_then(|lead| jobs(lead.ended.as_ref()?));
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
    let result = found.or_else(kept).or_else(bare)?;
    Some(RunResult { jobs: jobs.or(result.jobs), ..result })
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

/// The numbers of jobs that the lead's agent has reported. They have the same names in the status.
fn jobs(ended: &Ended) -> Option<JobNumbers> {
    serde_json::from_value(json!(ended.message.as_ref()?.jobs?)).ok()
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

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let output = format!("{}\nno space", "é".repeat(2000));
        let end = end_of(&output);
        assert!(
            (OUTPUT_LIMIT - 1..=OUTPUT_LIMIT).contains(&end.len()) && end.ends_with("no space")
        );
    }
}
