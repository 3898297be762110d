//! The status of a case, as lines of text.

use super::case::{Conclusion, lifecycle};
use super::kstatus::health;
use crate::controller::decide::deletion::time_until_deletion;
use crate::controller::fixtures::at;
use crate::controller::report::events::events;
use crate::controller::report::write_interval;
use crate::controller::status::{change, summary};
use crate::metrics::{StatusChange, Summary};
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

/// Conditions of most cases.
const USUAL: [&str; 4] = [
    "Accepted True Accepted: the specification is valid",
    "Suspended False NotSuspended: the Job is not suspended",
    "Complete False NotFinished: the MiniCluster has not finished",
    "Failed False NotFinished: the MiniCluster has not finished",
];

/// Conditions for tools that know no MiniClusters; each repeats another one.
const REPEATED: [&str; 2] = ["Stalled", "Reconciling"];

pub(super) fn lines(conclusion: &Conclusion) -> Vec<String> {
    let Conclusion { live, plan, status, object, .. } = conclusion;
    let generation = object.metadata.generation;
    assert_eq!(status.selector, "hpa-selector=hello");
    let mut lines = vec![format!("{}; {}", lifecycle(live), fields(status))];
    let answered = status.observed_generation.filter(|of| Some(*of) != generation);
    lines.extend(answered.map(|of| format!("answers generation {of}")));
    for condition in &status.conditions {
        assert!(!condition.message.is_empty());
        let Condition { type_, message, reason, .. } = condition;
        let line = if REPEATED.contains(&type_.as_str()) {
            let mut others = status.conditions.iter().filter(|it| it.type_ != *type_);
            let cause = others.find(|it| (&it.message, &it.reason) == (message, reason));
            format!("{type_} as {}", cause.unwrap().type_)
        } else {
            format!("{type_} {} {reason}: {message}", condition.status)
        };
        let since = condition.last_transition_time.0.as_second();
        let since =
            if since == conclusion.now { String::new() } else { format!(" (since {since})") };
        let of = condition
            .observed_generation
            .filter(|_| condition.observed_generation != status.observed_generation);
        let of = of.map(|of| format!(" (of generation {of})")).unwrap_or_default();
        let line = format!("{line}{since}{of}");
        if !USUAL.contains(&line.as_str()) {
            lines.push(line);
        }
    }
    lines.push(format!("Argo CD: {}", health(object, status)));
    lines.extend(metrics(object, status));
    let old = object.status.clone().unwrap_or_default();
    let events = events(&old.conditions, &status.conditions);
    let events: Vec<_> = events.iter().map(|it| format!("{:?} {}", it.type_, it.reason)).collect();
    if !events.is_empty() {
        lines.push(format!("Events: {}", events.join(", ")));
    }
    if old == *status {
        lines.push("nothing is written".to_owned());
    } else if let Some(interval) = write_interval(&old, status) {
        lines.push(format!("the write may wait {interval:?}"));
    }
    let deletion = time_until_deletion(&object.spec, plan.runs_again, status, &at(conclusion.now));
    lines.extend(deletion.map(|remaining| format!("deleted in {remaining:?}")));
    lines
}

/// What the metrics count of `status`, which is written over that of `object`.
fn metrics(object: &MiniCluster, status: &MiniClusterStatus) -> Option<String> {
    let Summary { in_queue, waits_since, .. } = summary(object, status).unwrap();
    let StatusChange { ready, end, .. } = change(object, status);
    let parts: Vec<_> = [
        in_queue.then(|| "in a queue".to_owned()),
        waits_since.map(|since| format!("waits since {}", since.as_second())),
        ready.map(|after| format!("ready after {after:?}")),
        end.map(|end| match end.after {
            Some(after) => format!("ended after {after:?}"),
            None => "ended".to_owned(),
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("metrics: {}", parts.join(", ")))
}

/// The fields of `status` that differ between the cases.
fn fields(status: &MiniClusterStatus) -> String {
    let mut fields = json!(status);
    let fields = fields.as_object_mut().unwrap();
    fields.retain(|name, value| match name.as_str() {
        "conditions" | "install" | "observedGeneration" | "selector" | "startTime" => false,
        "size" | "maximumSize" => *value != 4,
        // Most cases have only the run that has ended.
        "history" => {
            value.as_array().is_some_and(|runs| runs.len() > usize::from(status.is_over()))
        }
        _ => *value != "",
    });
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name} {value}")).collect();
    fields.join(", ").replace('"', "")
}
