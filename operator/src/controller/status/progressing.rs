//! The condition `Progressing`: what happens now, what is waited for, and which error stops it.

use super::brokers::Brokers;
use super::conditions::{Conditions, kind};
use super::facts::Facts;
use super::phase::{Phase, generation};
use super::pod::PodView;
use crate::controller::decide::mode::Mode;
use crate::controller::job_ext::{HELD_ANNOTATION, is_finished};
use crate::controller::pod_ext::running_beside;
use flux_api::crd::{Reason, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Sets the condition, from an error, else from changes that cannot be applied, else from the phase.
pub(super) fn progressing(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    phase: &Phase,
    brokers: &Brokers,
    replaced: Option<&str>,
) {
    let stopped = if let Some(error) = facts.error {
        Some((error.category(), error.chain()))
    } else if phase.state == State::Invalid {
        let message = "the specification is invalid: see the condition Accepted";
        Some((Reason::Invalid.as_str(), message.to_owned()))
    } else if phase.end.is_some() {
        let edited = not_run_again(facts).map(|message| (Reason::NotRunAgain.as_str(), message));
        edited.or_else(|| Some((Reason::Finished.as_str(), finished(facts))))
    } else if let Some(message) = change_refused(facts) {
        Some((Reason::ChangeRefused.as_str(), message + &waiting_beside(phase)))
    } else {
        let refused = facts.live.pods.refused.as_ref();
        refused.map(|refused| (Reason::PodsRefused.as_str(), refused.clone()))
    };
    if let Some((reason, message)) = stopped {
        conditions.no(kind::PROGRESSING, reason, message);
    } else if facts.plan.mode == Mode::StartedByAnotherOperator {
        let message = "another operator created the Job: this operator leaves it and its objects alone until it \
                       has ended";
        let message = format!("{message}{}", waiting_beside(phase));
        conditions.yes(kind::PROGRESSING, Reason::StartedByAnotherOperator, message);
    } else {
        of_phase(conditions, facts, phase, brokers, replaced);
    }
}

/// Message about a finished run, and about pods that foreign containers keep running.
fn finished(facts: &Facts<'_>) -> String {
    let finished = "the MiniCluster has finished";
    let Some(job) = &facts.live.job else { return finished.to_owned() };
    if let Some(held) = job.annotations().get(HELD_ANNOTATION) {
        format!(
            "{finished}; its pods were deleted, and their logs with them, because containers of others ran on: {held}"
        )
    } else if let Some(runs) = holders(facts).filter(|_| !is_finished(job)) {
        format!(
            "{finished}; containers of others still run: {runs}. When the grace period of the pod is over, the pods are \
             deleted, and their logs with them"
        )
    } else {
        finished.to_owned()
    }
}

/// Message about edits of a finished MiniCluster, which have no effect. An invalid edit is reported by `Accepted`.
fn not_run_again(facts: &Facts<'_>) -> Option<String> {
    let refused = facts.plan.violations.is_some();
    let changed = generation(facts) != facts.plan.generation || !facts.plan.refused.is_empty();
    if !changed || refused || facts.plan.expires {
        return None;
    }
    let fields = facts.plan.refused.join(", ");
    let separator = if fields.is_empty() { "" } else { ": " };
    Some(format!(
        "the MiniCluster has finished and is not run again, so the change has no effect{separator}{fields}; delete \
         and create the MiniCluster to run it"
    ))
}

fn change_refused(facts: &Facts<'_>) -> Option<String> {
    let what = if let Mode::StartedByAnotherRelease(image) = &facts.plan.mode {
        // No change can reach agents whose configuration this operator cannot read.
        (generation(facts) != facts.plan.generation).then(|| {
            format!(
                "it was started by another release of the operator, with the agent image {image}, whose \
                 agent.toml this one cannot read"
            )
        })
    } else {
        Some(facts.plan.refused.join(", ")).filter(|fields| !fields.is_empty())
    };
    what.map(|what| {
        format!("cannot be changed while the Job exists: {what}; delete and create the MiniCluster")
    })
}

fn waiting_beside(phase: &Phase) -> String {
    let waiting = phase.waiting.as_ref();
    waiting.map(|waiting| format!(". Also: {}", waiting.message)).unwrap_or_default()
}

/// Sets the condition from the phase; `replaced` is why the lead was replaced, if it was.
fn of_phase(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    phase: &Phase,
    brokers: &Brokers,
    replaced: Option<&str>,
) {
    let also = replaced.map(|why| format!("; {why}")).unwrap_or_default();
    let starting = if replaced.is_some() { Reason::LeadReplaced } else { Reason::Starting };
    if let Some(waiting) = &phase.waiting {
        // A short wait is part of every start.
        let reason = if waiting.is_persistent { Reason::Waiting } else { starting };
        return conditions.yes(kind::PROGRESSING, reason, format!("{}{also}", waiting.message));
    }
    let (holds, reason, message) = match phase.state {
        State::Pending | State::Starting if services_pod_waits(facts).is_some() => {
            (true, Reason::Waiting, services_pod_waits(facts).unwrap_or_default())
        }
        State::Pending => {
            let awaited = match &facts.live.job {
                Some(_) => "the lead's pod to start",
                None => "the Job",
            };
            (true, starting, format!("waiting for {awaited}{also}"))
        }
        State::Starting => (true, starting, format!("{}{also}", brokers.message())),
        State::Degraded => {
            let message = format!("the lead was ready and no longer is: {}", brokers.message());
            (false, Reason::Degraded, message)
        }
        State::Ending if phase.suspending => {
            (true, Reason::Suspending, "waiting for the pods of the suspended Job".to_owned())
        }
        State::Ending => (true, Reason::Ending, ending(facts)),
        State::Running => (false, Reason::Running, format!("the command can run{also}")),
        State::Suspended => (false, Reason::Suspended, "see the condition Suspended".to_owned()),
        State::Complete | State::Failed | State::Invalid => return,
    };
    conditions.set(kind::PROGRESSING, holds, reason, message);
}

/// The foreign containers that keep a pod of the lead running, if there are some.
fn holders(facts: &Facts<'_>) -> Option<String> {
    running_beside(facts.live.pods.held.as_ref()?, &facts.live.job.as_ref()?.name_any())
}

fn ending(facts: &Facts<'_>) -> String {
    match holders(facts) {
        Some(runs) => format!("waiting for containers to end: {runs}"),
        None => "waiting for the other pods to end".to_owned(),
    }
}

/// Why the pod of `spec.services` does not run, if it exists.
fn services_pod_waits(facts: &Facts<'_>) -> Option<String> {
    let pod = facts.live.services_pod.as_ref()?;
    let view = PodView::new(pod, "", &Time(jiff::Timestamp::MAX));
    view.waiting.map(|waiting| waiting.message)
}
