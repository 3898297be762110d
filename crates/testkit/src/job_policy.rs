//! What the failure of a pod means for its Job, by the Job's own failure policy.

use serde_json::Value;

/// What the failure of a pod means for its Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The Job has failed.
    FailJob,
    /// The pod is made again, and does not count.
    Ignore,
    /// The pod counts as a failure, and may be made again.
    Count,
}

/// The verdict on `pod` by the first rule of a Job with this specification that matches it.
/// (`matchPodFailurePolicy` in `pkg/controller/job/pod_failure_policy.go`.)
pub fn verdict(spec: &Value, pod: &Value) -> Verdict {
    let rules = spec["podFailurePolicy"]["rules"].as_array().into_iter().flatten();
    let rule = rules.into_iter().find(|rule| matches(rule, pod));
    match rule.and_then(|rule| rule["action"].as_str()) {
        Some("FailJob") => Verdict::FailJob,
        Some("Ignore") => Verdict::Ignore,
        other => {
            assert!(matches!(other, Some("Count") | None), "the operator's Jobs have no {other:?}");
            Verdict::Count
        }
    }
}

fn matches(rule: &Value, pod: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    if !rule["onExitCodes"].is_null() {
        let wanted = &rule["onExitCodes"];
        let values = list(&wanted["values"]);
        let ends =
            ["initContainerStatuses", "containerStatuses"].map(|all| list(&pod["status"][all]));
        return ends.concat().iter().any(|container| {
            let named =
                wanted["containerName"].is_null() || wanted["containerName"] == container["name"];
            let code = &container["state"]["terminated"]["exitCode"];
            let has = values.contains(code);
            named && !code.is_null() && *code != 0 && has == (wanted["operator"] == "In")
        });
    }
    let has = list(&pod["status"]["conditions"]);
    list(&rule["onPodConditions"]).iter().any(|wanted| {
        has.iter().any(|it| it["type"] == wanted["type"] && it["status"] == wanted["status"])
    })
}
