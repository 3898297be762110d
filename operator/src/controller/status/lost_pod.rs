//! What is known of the end of a lead whose pod is gone: the Job controller's words.

use super::pod::{Failure, meaning};
use flux_contract::Exit;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

/// The exit code of the lead's runner, if that has failed `job`: `Container hello for pod default/hello-0-abcde
/// failed with exit code 7 matching FailJob rule at index 1` (`pod_failure_policy.go` of Kubernetes).
pub(super) fn exit_code(job: &Job) -> Option<i32> {
    let name = job.name_any();
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let failed = conditions.iter().find(|it| it.type_ == "Failed" && it.status == "True")?;
    let words = failed.message.as_deref()?.strip_prefix(&format!("Container {name} for pod "))?;
    let (_namespace, words) = words.split_once('/')?;
    let words = words.strip_prefix(&format!("{name}-0-"))?;
    let (_, words) = words.split_once(" failed with exit code ")?;
    words.split(' ').next()?.parse().ok()
}

/// The failure that this code tells of: an agent that has a code of its own for it ended the run, or else it is
/// the command's.
pub(super) fn failure(code: i32) -> Failure {
    let gone = "its pod is gone, and its log with it";
    match Exit::from_code(code) {
        Some(exit) => Failure {
            reason: exit.reason().to_owned(),
            message: format!("the lead ended with exit code {code}; {gone}"),
        },
        None => Failure {
            reason: "CommandFailed".to_owned(),
            message: format!("command exited with code {code}{}; {gone}", meaning(code)),
        },
    }
}
