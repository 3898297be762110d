//! The condition `Progressing`: what happens now, what is waited for, and which error stops it.

use super::conditions::{Conditions, kind};
use super::facts::{Brokers, Facts};
use crate::controller::job_ext::{HELD_ANNOTATION, is_finished};
use crate::controller::observe::foreign::Foreign;
use crate::controller::observe::lifecycle::Lifecycle;
use crate::controller::observe::pod_view::PodView;
use crate::controller::observe::waiting::Waiting;
use crate::controller::pod_ext::running_beside;
use flux_api::crd::{Reason, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Sets the condition, from an error, else from changes that cannot be applied, else from the lifecycle. `replaced` is
/// why the lead was replaced, if it was.
pub(super) fn progressing(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    brokers: &Brokers,
    lead: Option<&PodView<'_>>,
    replaced: Option<&str>,
) {
    let waiting = waiting(facts, lead);
    let beside = waiting.as_ref().map(|it| format!(". Also: {}", it.message)).unwrap_or_default();
    let stopped = if let Some(error) = facts.error {
        Some((error.category(), error.chain()))
    } else if facts.state() == State::Invalid {
        let message = "the specification is invalid: see the condition Accepted";
        Some((Reason::Invalid.as_str(), message.to_owned()))
    } else if facts.end().is_some() {
        let edited = not_run_again(facts).map(|message| (Reason::NotRunAgain.as_str(), message));
        edited.or_else(|| Some((Reason::Finished.as_str(), finished(facts))))
    } else if let Some(message) = change_refused(facts) {
        Some((Reason::ChangeRefused.as_str(), message + &beside))
    } else {
        let refused = facts.live.pods.refused.as_ref();
        refused.map(|refused| (Reason::PodsRefused.as_str(), refused.clone()))
    };
    if let Some((reason, message)) = stopped {
        conditions.no(kind::PROGRESSING, reason, message);
    } else if facts.live.foreign == Some(Foreign::Operator) {
        let message = "another operator created the Job: this operator leaves it and its objects alone until it \
                       has ended";
        let reason = Reason::StartedByAnotherOperator;
        conditions.yes(kind::PROGRESSING, reason, format!("{message}{beside}"));
    } else {
        of_lifecycle(conditions, facts, brokers, waiting, replaced);
    }
}

/// What pods of a run wait for, if they do not only need time.
fn waiting(facts: &Facts<'_>, lead: Option<&PodView<'_>>) -> Option<Waiting> {
    use Lifecycle::{Pending, Running, Starting};
    if !matches!(facts.live.lifecycle, Pending | Starting | Running) {
        return None;
    }
    let found = facts.live.pods.waiting.clone();
    let found = found.or_else(|| lead.and_then(|it| it.waiting.clone()));
    found.or_else(|| facts.live.job.as_ref().filter(|_| lead.is_none()).and_then(no_pods))
}

/// The wait of a started Job that has no pods: the Job controller cannot create them.
fn no_pods(job: &Job) -> Option<Waiting> {
    let status = job.status.as_ref()?;
    let none = status.start_time.is_some() && status.active.unwrap_or_default() == 0;
    let refused = none && status.terminating.unwrap_or_default() == 0;
    let name = job.name_any();
    let message = format!("the Job has no pod yet; `kubectl describe job {name}` shows why");
    refused.then_some(Waiting { message, is_persistent: false })
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
    let changed = facts.generation() != facts.plan.generation || !facts.plan.refused.is_empty();
    if !changed || refused || facts.plan.expires || facts.plan.runs_again {
        return None;
    }
    let fields = facts.plan.refused.join(", ");
    let separator = if fields.is_empty() { "" } else { ": " };
    Some(format!(
        "the MiniCluster has finished and is not run again, so the change has no effect{separator}{fields}; change \
         spec.runId to run it"
    ))
}

fn change_refused(facts: &Facts<'_>) -> Option<String> {
    let what = if let Some(Foreign::Release(image)) = &facts.live.foreign {
        // No change can reach agents whose configuration this operator cannot read.
        (facts.generation() != facts.plan.generation).then(|| {
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

fn of_lifecycle(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    brokers: &Brokers,
    waiting: Option<Waiting>,
    replaced: Option<&str>,
) {
    use Lifecycle::{
        Degraded, Ended, Ending, Failing, New, Pending, Running, Starting, Suspended, Suspending,
    };
    let also = replaced.map(|why| format!("; {why}")).unwrap_or_default();
    let starting = if replaced.is_some() { Reason::LeadReplaced } else { Reason::Starting };
    if let Some(waiting) = waiting {
        // A short wait is part of every start.
        let reason = if waiting.is_persistent { Reason::Waiting } else { starting };
        return conditions.yes(kind::PROGRESSING, reason, format!("{}{also}", waiting.message));
    }
    let lifecycle = &facts.live.lifecycle;
    let (holds, reason, message) = match lifecycle {
        New if facts.live.cleared.is_some() => {
            let message = "waiting until the Job of the run before is gone, with its pods";
            (true, starting, message.to_owned())
        }
        New | Pending | Starting if services_pod_waits(facts).is_some() => {
            (true, Reason::Waiting, services_pod_waits(facts).unwrap_or_default())
        }
        New => (true, starting, format!("waiting for the Job{also}")),
        Pending => (true, starting, format!("waiting for the lead's pod to start{also}")),
        Starting => (true, starting, format!("{}{also}", brokers.message())),
        Degraded => {
            let message = format!("the lead was ready and no longer is: {}", brokers.message());
            (false, Reason::Degraded, message)
        }
        Suspending => {
            (true, Reason::Suspending, "waiting for the pods of the suspended Job".to_owned())
        }
        Ending | Failing => (true, Reason::Ending, ending(facts)),
        Running => {
            let what = if facts.plan.interactive {
                "the instance takes jobs"
            } else {
                "the command can run"
            };
            (false, Reason::Running, format!("{what}{also}"))
        }
        Suspended(_) => (false, Reason::Suspended, "see the condition Suspended".to_owned()),
        Ended(_) => return,
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
