//! What is known of the end of a lead whose pod is gone: the Job controller's words, which no field repeats.

use super::pod::{Outcome, meaning};
use crate::controller::kube_ext::job_condition;
use flux_contract::Exit;
use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyRule};
use kube::ResourceExt as _;

/// The exit code of the lead's runner, if that has failed `job`: `Container hello for pod default/hello-0-abcde
/// failed with exit code 7 matching FailJob rule at index 1` (`pod_failure_policy.go` of Kubernetes). Words that
/// do not agree with the rules of the Job give no code.
pub(super) fn exit_code(job: &Job) -> Option<i32> {
    let name = job.name_any();
    let failed = job_condition(job, "Failed")?;
    if failed.reason.as_deref() != Some("PodFailurePolicy") {
        return None;
    }
    let words = failed.message.as_deref()?.strip_prefix(&format!("Container {name} for pod "))?;
    let (_namespace, words) = words.split_once('/')?;
    let words = words.strip_prefix(&format!("{name}-0-"))?;
    let (_, words) = words.split_once(" failed with exit code ")?;
    let (code, index) = words.split_once(" matching FailJob rule at index ")?;
    let (code, index) = (code.parse().ok()?, index.parse::<usize>().ok()?);
    let rule = job.spec.as_ref()?.pod_failure_policy.as_ref()?.rules.get(index)?;
    fails_by(rule, &name, code).then_some(code)
}

/// True when `rule` fails a Job whose container `name` ends with `code`.
fn fails_by(rule: &PodFailurePolicyRule, name: &str, code: i32) -> bool {
    rule.action == "FailJob"
        && rule.on_exit_codes.as_ref().is_some_and(|codes| {
            codes.container_name.as_deref().is_none_or(|container| container == name)
                && codes.values.contains(&code) == (codes.operator == "In")
        })
}

/// The failure that this code tells of: an agent that has a code of its own for it ended the run, or else it is
/// the command's.
pub(super) fn failure(code: i32) -> Outcome {
    let gone = "its pod is gone, and its log with it";
    match Exit::from_code(code) {
        Some(exit) => {
            Outcome::new(exit.reason(), format!("the lead ended with exit code {code}; {gone}"))
        }
        None => {
            let meaning = meaning(code);
            let message = format!("command exited with code {code}{meaning}; {gone}");
            Outcome::new("CommandFailed", message)
        }
    }
}
