//! What the failure of a pod means for its Job, by the Job's own failure policy.

use serde_json::Value;

/// What the failure of a pod comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    FailJob,
    /// The pod is made again, and does not count.
    Ignore,
    Count,
}

/// What the failure of `pod` means for a Job with this specification: the first rule that matches
/// decides. (`matchPodFailurePolicy` in `pkg/controller/job/pod_failure_policy.go`.)
pub(crate) fn verdict(spec: &Value, pod: &Value) -> Verdict {
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
        let asked = &rule["onExitCodes"];
        let values = list(&asked["values"]);
        let ends =
            ["initContainerStatuses", "containerStatuses"].map(|all| list(&pod["status"][all]));
        return ends.concat().iter().any(|container| {
            let named =
                asked["containerName"].is_null() || asked["containerName"] == container["name"];
            let code = &container["state"]["terminated"]["exitCode"];
            let has = values.contains(code);
            named && !code.is_null() && *code != 0 && has == (asked["operator"] == "In")
        });
    }
    let has = list(&pod["status"]["conditions"]);
    list(&rule["onPodConditions"]).iter().any(|asked| {
        has.iter().any(|it| it["type"] == asked["type"] && it["status"] == asked["status"])
    })
}
