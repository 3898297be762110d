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
    let (reason, what) = Exit::from_code(code).map_or_else(
        || ("CommandFailed", format!("command exited with code {code}{}", meaning(code))),
        |exit| (exit.reason(), format!("the lead ended with exit code {code}")),
    );
    Outcome::new(reason, format!("{what}; {gone}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built, cluster, ended_job};
    use serde_json::json;

    #[test]
    fn a_lead_whose_pod_is_gone_is_told_by_the_code_that_the_job_has_noted() {
        let policy = built(&cluster(&json!({})), 1).job.spec.unwrap().pod_failure_policy;
        for (reason, pod, code, rule, told) in [
            ("PodFailurePolicy", "hello-0-abcde", 7, 1, Some("CommandFailed")),
            ("PodFailurePolicy", "hello-0-abcde", 69, 1, Some("HookFailed")),
            ("PodFailurePolicy", "hello-1-abcde", 73, 1, None),
            // Words that do not agree with the rules of the Job are not believed.
            ("PodFailurePolicy", "hello-0-abcde", 75, 1, None),
            ("PodFailurePolicy", "hello-0-abcde", 7, 0, None),
            ("PodFailurePolicy", "hello-0-abcde", 7, 2, None),
            ("PodFailurePolicy", "hello-0-abcde", 7, 9, None),
            ("BackoffLimitExceeded", "hello-0-abcde", 7, 1, None),
        ] {
            let mut job = ended_job("Failed", reason);
            job.spec.as_mut().unwrap().pod_failure_policy.clone_from(&policy);
            let conditions = job.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions[0].message = Some(format!(
                "Container hello for pod default/{pod} failed with exit code {code} matching FailJob rule at index {rule}"
            ));
            let found = exit_code(&job);
            assert_eq!(found, told.map(|_| code), "{reason} {pod} {code} {rule}");
            assert_eq!(found.map(|code| failure(code).reason).as_deref(), told);
        }
    }
}
