//! The condition `Progressing`: what is under way, what it waits for, and what stands in its way.

use super::Brokers;
use super::conditions::{Conditions, kind};
use super::end::{Phase, generation};
use super::pod::PodView;
use crate::controller::course::Why;
use crate::controller::observe::{Acceptance, Observed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Sets the condition: trouble first, then what was asked for and cannot be had, then the phase.
pub(super) fn progressing(
    conditions: &mut Conditions,
    observed: &Observed,
    phase: &Phase,
    brokers: &Brokers,
) {
    if let Some(trouble) = &observed.trouble {
        return conditions.no(kind::PROGRESSING, trouble.reason, trouble.message.clone());
    }
    let refused = matches!(observed.acceptance, Acceptance::Refused(_));
    if refused && observed.job.is_none() && observed.ended.is_none() {
        let message = "the specification was refused: see the condition Accepted".to_owned();
        return conditions.no(kind::PROGRESSING, "Invalid", message);
    }
    if let Some(message) = not_run_again(observed, phase) {
        return conditions.no(kind::PROGRESSING, "NotRunAgain", message);
    }
    if phase.is_over() {
        let message = "the MiniCluster has finished".to_owned();
        return conditions.no(kind::PROGRESSING, "Finished", message);
    }
    if let Some(message) = change_refused(observed) {
        let message = message + &waiting_beside(phase);
        return conditions.no(kind::PROGRESSING, "ChangeRefused", message);
    }
    if let Some(refusal) = &observed.pods_refused {
        return conditions.no(kind::PROGRESSING, "PodsRefused", refusal.clone());
    }
    if observed.left_alone == Some(Why::AnotherOperator) {
        let message = "the Job was made by another operator: it is left alone, with all that belongs \
                       to it, until it has ended";
        let message = format!("{message}{}", waiting_beside(phase));
        return conditions.yes(kind::PROGRESSING, "StartedByAnotherOperator", message);
    }
    of_phase(conditions, observed, phase, brokers);
}

/// What a change of a finished MiniCluster comes to: nothing. Neither is the specification that was
/// refused run, but that is said already.
fn not_run_again(observed: &Observed, phase: &Phase) -> Option<String> {
    let refused = matches!(observed.acceptance, Acceptance::Refused(_));
    let changed = generation(observed) != observed.generation || !observed.refused.is_empty();
    if !phase.is_over() || !changed || refused || observed.cleanup {
        return None;
    }
    let what = match observed.refused.join(", ") {
        fields if fields.is_empty() => "what was changed since has no effect".to_owned(),
        fields => format!("what was changed since has no effect: {fields}"),
    };
    Some(format!(
        "nothing was run: the MiniCluster has finished, and {what}; delete and create the MiniCluster \
         to run it"
    ))
}

/// What was asked for and cannot be had while the Job exists.
fn change_refused(observed: &Observed) -> Option<String> {
    if let Some(Why::AnotherRelease(image)) = &observed.left_alone {
        // Whatever was changed: nothing of it can reach a run that is not understood.
        return (generation(observed) != observed.generation).then(|| {
            format!(
                "cannot be changed while the Job exists: it was started by another release of the \
                 operator, with the agent image {image}, whose agent.toml this one cannot read; delete \
                 and create the MiniCluster"
            )
        });
    }
    let fields = observed.refused.join(", ");
    (!fields.is_empty()).then(|| {
        format!(
            "cannot be changed while the Job exists: {fields}; delete and create the MiniCluster"
        )
    })
}

/// What pods wait for, after another sentence.
fn waiting_beside(phase: &Phase) -> String {
    match phase {
        Phase::Pending(Some(waiting))
        | Phase::Starting(Some(waiting))
        | Phase::Running(Some(waiting)) => format!(". Also: {}", waiting.message),
        Phase::Pending(None)
        | Phase::Starting(None)
        | Phase::Running(None)
        | Phase::Degraded
        | Phase::Ending
        | Phase::Suspended
        | Phase::Complete { .. }
        | Phase::Failed { .. } => String::new(),
    }
}

fn of_phase(conditions: &mut Conditions, observed: &Observed, phase: &Phase, brokers: &Brokers) {
    match phase {
        Phase::Pending(Some(waiting))
        | Phase::Starting(Some(waiting))
        | Phase::Running(Some(waiting)) => {
            // What only waits for a moment is part of every start.
            let reason = if waiting.lasts { "Waiting" } else { "Starting" };
            conditions.yes(kind::PROGRESSING, reason, waiting.message.clone());
        }
        Phase::Pending(None) | Phase::Starting(None) if services_wait(observed).is_some() => {
            let waiting = services_wait(observed).unwrap_or_default();
            conditions.yes(kind::PROGRESSING, "Waiting", waiting);
        }
        Phase::Pending(None) => {
            let message = match (&observed.job, &observed.lead) {
                (Some(_), None) => "waiting for the lead's pod",
                (Some(_), Some(_)) => "the lead's pod has not started yet",
                (None, _) => "waiting for the Job",
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
        Phase::Suspended => {
            conditions.no(kind::PROGRESSING, "Suspended", "the Job is suspended".to_owned());
        }
        Phase::Complete { .. } | Phase::Failed { .. } => {}
    }
}

/// What keeps the services pod from running, if there is one and it does not.
fn services_wait(observed: &Observed) -> Option<String> {
    let pod = observed.services.as_ref()?;
    let view = PodView::new(pod, "", &Time(jiff::Timestamp::MAX));
    view.waiting.map(|waiting| waiting.message)
}
