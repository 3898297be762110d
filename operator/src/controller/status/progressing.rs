//! The condition `Progressing`: what is under way, what it waits for, and what stands in its way.

use super::brokers::Brokers;
use super::conditions::{Conditions, kind};
use super::end::{Phase, generation};
use super::facts::Facts;
use super::pod::PodView;
use crate::controller::decide::Acceptance;
use crate::controller::decide::mode::{Mode, Unmanaged};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Sets the condition: an error first, then what was asked for and cannot be had, then the phase.
pub(super) fn progressing(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    phase: &Phase,
    brokers: &Brokers,
) {
    if let Some(error) = facts.error {
        return conditions.no(kind::PROGRESSING, error.category(), error.chain());
    }
    let refused = matches!(facts.plan.acceptance, Acceptance::Refused(_));
    if refused && facts.live.job.is_none() && facts.plan.mode.ended().is_none() {
        let message = "the specification was refused: see the condition Accepted".to_owned();
        return conditions.no(kind::PROGRESSING, "Invalid", message);
    }
    if let Some(message) = not_run_again(facts, phase) {
        return conditions.no(kind::PROGRESSING, "NotRunAgain", message);
    }
    if phase.is_over() {
        let message = "the MiniCluster has finished".to_owned();
        return conditions.no(kind::PROGRESSING, "Finished", message);
    }
    if let Some(message) = change_refused(facts) {
        let message = message + &waiting_beside(phase);
        return conditions.no(kind::PROGRESSING, "ChangeRefused", message);
    }
    if let Some(refusal) = &facts.live.pods.refused {
        return conditions.no(kind::PROGRESSING, "PodsRefused", refusal.clone());
    }
    if facts.plan.mode.is_of_another_operator() {
        let message = "the Job was made by another operator: it is left alone, with all that belongs \
                       to it, until it has ended";
        let message = format!("{message}{}", waiting_beside(phase));
        return conditions.yes(kind::PROGRESSING, "StartedByAnotherOperator", message);
    }
    of_phase(conditions, facts, phase, brokers);
}

/// What a change of a finished MiniCluster comes to: nothing. Neither is the specification that was
/// refused run, but that is said already.
fn not_run_again(facts: &Facts<'_>, phase: &Phase) -> Option<String> {
    let refused = matches!(facts.plan.acceptance, Acceptance::Refused(_));
    let changed = generation(facts) != facts.plan.generation || !facts.plan.refused.is_empty();
    if !phase.is_over() || !changed || refused || facts.plan.expires {
        return None;
    }
    let what = match facts.plan.refused.join(", ") {
        fields if fields.is_empty() => "what was changed since has no effect".to_owned(),
        fields => format!("what was changed since has no effect: {fields}"),
    };
    Some(format!(
        "nothing was run: the MiniCluster has finished, and {what}; delete and create the MiniCluster \
         to run it"
    ))
}

/// What was asked for and cannot be had while the Job exists.
fn change_refused(facts: &Facts<'_>) -> Option<String> {
    if let Mode::Unmanaged(Unmanaged::AnotherRelease(image)) = &facts.plan.mode {
        // Whatever was changed: nothing of it can reach a run that is not understood.
        return (generation(facts) != facts.plan.generation).then(|| {
            format!(
                "cannot be changed while the Job exists: it was started by another release of the \
                 operator, with the agent image {image}, whose agent.toml this one cannot read; delete \
                 and create the MiniCluster"
            )
        });
    }
    let fields = facts.plan.refused.join(", ");
    (!fields.is_empty()).then(|| {
        format!(
            "cannot be changed while the Job exists: {fields}; delete and create the MiniCluster"
        )
    })
}

/// What pods wait for, after another sentence.
fn waiting_beside(phase: &Phase) -> String {
    phase.waiting().map(|waiting| format!(". Also: {}", waiting.message)).unwrap_or_default()
}

fn of_phase(conditions: &mut Conditions, facts: &Facts<'_>, phase: &Phase, brokers: &Brokers) {
    match phase {
        Phase::Pending(Some(waiting))
        | Phase::Starting(Some(waiting))
        | Phase::Running(Some(waiting)) => {
            // What only waits for a moment is part of every start.
            let reason = if waiting.lasts { "Waiting" } else { "Starting" };
            conditions.yes(kind::PROGRESSING, reason, waiting.message.clone());
        }
        Phase::Pending(None) | Phase::Starting(None) if services_pod_waits(facts).is_some() => {
            let waiting = services_pod_waits(facts).unwrap_or_default();
            conditions.yes(kind::PROGRESSING, "Waiting", waiting);
        }
        Phase::Pending(None) => {
            let message = match &facts.live.job {
                Some(_) => "waiting for the lead's pod to start",
                None => "waiting for the Job",
            };
            conditions.yes(kind::PROGRESSING, "Starting", message.to_owned());
        }
        Phase::Starting(None) => {
            conditions.yes(kind::PROGRESSING, "Starting", brokers.message());
        }
        Phase::Degraded => {
            let message = format!("the lead was ready and is not any more: {}", brokers.message());
            conditions.no(kind::PROGRESSING, "Degraded", message);
        }
        Phase::Ending => {
            let message = "waiting for the rest of the pods to end".to_owned();
            conditions.yes(kind::PROGRESSING, "Ending", message);
        }
        Phase::Running(None) => {
            conditions.no(kind::PROGRESSING, "Running", "the command can run".to_owned());
        }
        Phase::Suspending => {
            let message = "waiting for the pods of the suspended Job to end".to_owned();
            conditions.yes(kind::PROGRESSING, "Suspending", message);
        }
        Phase::Suspended => {
            let message = "see the condition Suspended".to_owned();
            conditions.no(kind::PROGRESSING, "Suspended", message);
        }
        Phase::Complete { .. } | Phase::Failed { .. } => {}
    }
}

/// What keeps the pod of `spec.services` from running, if there is one and it does not.
fn services_pod_waits(facts: &Facts<'_>) -> Option<String> {
    let pod = facts.live.services_pod.as_ref()?;
    let view = PodView::new(pod, "", &Time(jiff::Timestamp::MAX));
    view.waiting.map(|waiting| waiting.message)
}
