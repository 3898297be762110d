//! Why an instance that people end has another lead than before, and what it has lost by that.

use super::facts::Facts;
use super::pod::{OUT_OF_MEMORY, Outcome, PodView};
use flux_contract::invocation::REPLACED_VARIABLES;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Why the lead has begun again or is about to, and what is lost; `None` for a first lead, and where a command is run,
/// whose lead has no successor.
pub(super) fn replaced(
    facts: &Facts<'_>,
    runner: &str,
    lead: Option<&PodView<'_>>,
    now: &Time,
) -> Option<String> {
    let lead = lead.filter(|_| facts.plan.interactive)?;
    let earlier = facts.live.pods.earlier_lead.as_ref();
    let earlier = earlier.map(|pod| PodView::new(pod, runner, now));
    // A pod in which no container was started has had no jobs.
    let ended = [Some(lead), earlier.as_ref()].into_iter().flatten().find(|it| it.ended.is_some());
    let outcome = ended.and_then(PodView::failure).or_else(|| lead.earlier_end());
    let gone = || {
        let why = "its earlier pod is gone: it was deleted, or its node was lost";
        was_made_again(lead.pod).then(|| Outcome::new("PodGone", why.to_owned()))
    };
    let Outcome { reason, message } = outcome.or_else(gone)?;
    let memory = memory(facts, &reason);
    Some(format!("the lead has begun again: {message}{memory}; {}", lost(facts)))
}

/// Whether the Job controller has made a pod of this index before.
fn was_made_again(pod: &Pod) -> bool {
    let count = |(_, annotation): (&str, &str)| pod.annotations().get(annotation)?.parse().ok();
    REPLACED_VARIABLES.into_iter().filter_map(count).any(|count: u32| count > 0)
}

fn memory(facts: &Facts<'_>, reason: &str) -> String {
    if reason != OUT_OF_MEMORY {
        return String::new();
    }
    let limit = facts.plan.memory_limit.as_ref();
    let limit = limit.map(|limit| format!(" is {limit}")).unwrap_or_default();
    format!("; spec.containers[].resources.limits.memory{limit}")
}

fn lost(facts: &Facts<'_>) -> String {
    match &facts.plan.archive {
        Some(path) => format!(
            "the jobs that are not in the archive {path} are lost; it is written when a lead is stopped in order"
        ),
        None => "its jobs and their output are lost; spec.archive keeps them where a lead is stopped in order"
            .to_owned(),
    }
}
