//! The status, as a function of what was observed.

mod brokers;
mod conditions;
mod end;
mod facts;
mod lost_pod;
mod pod;
mod progressing;
#[cfg(test)]
mod tests;

pub(super) use conditions::{SETTLED_REASONS, kind};
pub(super) use facts::Facts;

use super::decide::Acceptance;
use super::decide::install::InstallChoice;
use super::decide::mode::Mode;
use super::decide::suspension::was_taken;
use super::error::Error;
use super::kube_ext::is_suspended_by_specification;
use crate::crd::{MiniCluster, MiniClusterStatus, State, TimelineEntry};
use brokers::Brokers;
use conditions::Conditions;
use end::{Phase, phase};
use flux_contract::labels;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use pod::PodView;

/// The status of the MiniCluster called `name`.
///
/// `now` is used for conditions that flip and for how long something has lasted; everything else
/// follows from the arguments, so that the same facts give the same status and nothing is
/// written twice. Of `old` only those facts are kept that the objects of the run no longer show.
pub(super) fn status(
    old: Option<&MiniClusterStatus>,
    name: &str,
    facts: &Facts<'_>,
    now: Time,
) -> MiniClusterStatus {
    let is_of_this_run = |lead: &&Pod| !was_taken(lead, facts.live.job.as_ref());
    let lead = facts.live.pods.lead.as_ref().filter(is_of_this_run);
    let lead = lead.map(|pod| PodView::new(pod, name, &now));
    let phase = phase(name, facts, lead.as_ref(), &now);
    let start_time = start_time(facts);
    let old_run = old.filter(|old| old.start_time.is_some() && old.start_time == start_time);
    let record = Record::of(old_run, &phase, facts, lead.as_ref());
    let brokers = Brokers::of(facts, &phase, old_run);
    let state = state(&phase, facts);
    let mut list = Conditions::new(old, facts.plan.generation, now);
    accepted(&mut list, facts);
    progressing::progressing(&mut list, facts, &phase, &brokers);
    ready(&mut list, &phase, &brokers, lead.as_ref());
    suspended(&mut list, &phase, facts);
    ended(&mut list, facts, &phase);
    let conditions = list.into_list();
    MiniClusterStatus {
        size: brokers.size,
        selector: selector(name),
        jobid: String::new(),
        maximum_size: facts.plan.maximum_size.map_or_else(
            || old.map(|old| old.maximum_size).unwrap_or_default(),
            |size| i32::try_from(size).unwrap_or(i32::MAX),
        ),
        state: Some(state),
        reason: reason(state, &conditions),
        ready_brokers: brokers.ready,
        exit_code: record.exit_code,
        start_time,
        completion_time: phase.ended_at(),
        observed_generation: Some(facts.plan.generation),
        conditions,
        // The Job says so; when it is gone, the status of its run does.
        install: (facts.plan.install.as_ref().map(InstallChoice::reported))
            .or_else(|| old_run.and_then(|old| old.install.clone())),
        timeline: record.timeline,
    }
}

/// The status of a MiniCluster whose reconcile was interrupted by `error`: what is known stays, and why
/// no more is known is added.
pub(super) fn interrupted(cluster: &MiniCluster, error: &Error, now: Time) -> MiniClusterStatus {
    let old = cluster.status.as_ref();
    let generation = cluster.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(old, generation, now);
    conditions.no(kind::PROGRESSING, error.category(), error.chain());
    let old = old.cloned().unwrap_or_default();
    MiniClusterStatus {
        selector: selector(&cluster.name_any()),
        state: old.state.or(Some(State::Pending)),
        reason: if old.is_over() { old.reason } else { Some(error.category().to_owned()) },
        conditions: conditions.with_old(),
        ..old
    }
}

fn state(phase: &Phase, facts: &Facts<'_>) -> State {
    let refused = matches!(facts.plan.acceptance, Acceptance::Refused(_));
    let nothing = facts.live.job.is_none() && facts.plan.mode.ended().is_none();
    if refused && nothing { State::Invalid } else { phase.state() }
}

/// The reason of the condition that says most about `state`.
fn reason(state: State, conditions: &[Condition]) -> Option<String> {
    let type_ = match state {
        State::Complete => kind::COMPLETE,
        State::Failed => kind::FAILED,
        State::Invalid => kind::ACCEPTED,
        State::Pending
        | State::Starting
        | State::Running
        | State::Degraded
        | State::Ending
        | State::Suspended => kind::PROGRESSING,
    };
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some(condition.reason.clone())
}

/// When the run started: from the Job; from the note of its end where the Job was deleted.
fn start_time(facts: &Facts<'_>) -> Option<Time> {
    let job = facts.live.job.as_ref().and_then(|job| job.status.as_ref());
    let ended = facts.plan.mode.ended().and_then(|run| run.start_time.clone());
    job.and_then(|status| status.start_time.clone()).or(ended)
}

/// Label selector of the pods for autoscalers.
fn selector(name: &str) -> String {
    format!("{}={name}", labels::HPA_SELECTOR)
}

/// What is known of the lead's run.
struct Record {
    exit_code: Option<i32>,
    timeline: Vec<TimelineEntry>,
}

impl Record {
    /// From the lead's pod; from the note of the end, or the old status of the same run, where the
    /// pod is gone.
    fn of(
        old_run: Option<&MiniClusterStatus>,
        phase: &Phase,
        facts: &Facts<'_>,
        lead: Option<&PodView<'_>>,
    ) -> Self {
        let ended = lead.and_then(|lead| lead.ended.as_ref());
        let Some(ended) = ended.filter(|_| lead.is_some_and(|lead| lead.over) || phase.is_over())
        else {
            let kept = if lead.is_none() || phase.is_over() { old_run } else { None };
            // A complete Job has a lead that ended well, whether its pod is still there or not.
            let complete = matches!(phase, Phase::Complete { .. }).then_some(0);
            let noted = facts.plan.mode.ended().and_then(|run| run.exit_code);
            let job = facts.live.job.as_ref();
            let known = noted.or_else(|| kept.and_then(|old| old.exit_code)).or(complete);
            return Self {
                exit_code: known.or_else(|| job.and_then(lost_pod::exit_code)),
                timeline: kept.map(|old| old.timeline.clone()).unwrap_or_default(),
            };
        };
        let phases = ended.message.iter().flat_map(|message| &message.phases);
        let milliseconds = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Self {
            exit_code: Some(ended.exit_code),
            timeline: phases
                .map(|phase| TimelineEntry {
                    name: phase.name.clone(),
                    start_milliseconds: milliseconds(phase.start_milliseconds),
                    duration_milliseconds: milliseconds(phase.duration_milliseconds),
                })
                .take(64)
                .collect(),
        }
    }
}

fn suspended(conditions: &mut Conditions, phase: &Phase, facts: &Facts<'_>) {
    match phase {
        Phase::Suspended => {
            let (reason, message) = why_suspended(facts);
            conditions.yes(kind::SUSPENDED, reason, message);
        }
        Phase::Suspending => {
            let message = "the Job is suspended, and its pods have not ended yet".to_owned();
            conditions.no(kind::SUSPENDED, "Suspending", message);
        }
        Phase::Pending(_)
        | Phase::Starting(_)
        | Phase::Running(_)
        | Phase::Degraded
        | Phase::Ending
        | Phase::Complete { .. }
        | Phase::Failed { .. } => {
            let message = "the Job is not suspended".to_owned();
            conditions.no(kind::SUSPENDED, "NotSuspended", message);
        }
    }
}

/// Who has suspended the Job, and what it waits for.
fn why_suspended(facts: &Facts<'_>) -> (&'static str, String) {
    if let Some(queue) = &facts.live.queue {
        let says = queue.says.as_ref().map(|says| format!(": {says}")).unwrap_or_default();
        return ("InQueue", format!("waits in the queue {}{says}", queue.name));
    }
    if facts.live.job.as_ref().is_some_and(is_suspended_by_specification) {
        let message = "suspended by the specification; spec.suspend: false resumes it".to_owned();
        return ("SuspendedBySpecification", message);
    }
    ("JobSuspended", "somebody has suspended the Job, and resumes it".to_owned())
}

fn accepted(conditions: &mut Conditions, facts: &Facts<'_>) {
    let fields = match &facts.plan.acceptance {
        Acceptance::Refused(violations) => {
            return conditions.no(kind::ACCEPTED, "Invalid", violations.to_string());
        }
        Acceptance::Accepted(not_acted_on) => not_acted_on.join(", "),
    };
    // Nobody asks for a name once the run is over.
    let applies = facts.plan.mode == Mode::Reconcile;
    let taken = if applies { facts.live.names_taken.join(", ") } else { String::new() };
    let dropped = facts.plan.dropped.join(", ");
    let remarks: Vec<_> = [
        (fields.as_str(), format!("this version does not act on: {fields}")),
        (dropped.as_str(), format!("the API server has left out of the Job: {dropped}")),
        (taken.as_str(), name_taken(&taken)),
    ]
    .into_iter()
    .filter_map(|(found, remark)| (!found.is_empty()).then_some(remark))
    .collect();
    let reason = match (fields.is_empty() && dropped.is_empty(), taken.is_empty()) {
        (true, true) => "Accepted",
        (true, false) => "ServiceNameTaken",
        (false, _) => "FieldsNotActedOn",
    };
    let message = if remarks.is_empty() {
        "the specification is valid".to_owned()
    } else {
        format!("valid, but {}", remarks.join("; "))
    };
    conditions.yes(kind::ACCEPTED, reason, message);
}

fn name_taken(names: &str) -> String {
    format!(
        "another object of the namespace has the name of the Service {names}: the sidecar is reached \
         by its long name, <MiniCluster>-<sidecar>, alone"
    )
}

fn ready(
    conditions: &mut Conditions,
    phase: &Phase,
    brokers: &Brokers,
    lead: Option<&PodView<'_>>,
) {
    match phase {
        Phase::Running(_) => {
            let failed = lead.and_then(PodView::failed_container);
            let failed = failed.map(|failed| format!("; but its {failed}")).unwrap_or_default();
            let lacking = brokers.lacking().map(|text| format!("; {text}")).unwrap_or_default();
            let message = format!("the lead is ready: the quorum was reached{lacking}{failed}");
            conditions.yes(kind::READY, "QuorumReached", message);
        }
        Phase::Degraded => conditions.no(kind::READY, "LeadNotReady", brokers.message()),
        Phase::Pending(_) | Phase::Starting(_) => {
            conditions.no(kind::READY, "Starting", brokers.message());
        }
        Phase::Suspending | Phase::Suspended => {
            conditions.no(kind::READY, "Suspended", brokers.message());
        }
        Phase::Ending | Phase::Complete { .. } | Phase::Failed { .. } => {
            conditions.no(kind::READY, "Finished", "the lead has ended".to_owned());
        }
    }
}

fn ended(conditions: &mut Conditions, facts: &Facts<'_>, phase: &Phase) {
    // The run belongs to the specification it was started from, not to a later one.
    let generation = end::generation(facts);
    match phase {
        Phase::Complete { .. } => {
            let (reason, message) = success(facts);
            conditions.yes_of(generation, kind::COMPLETE, &reason, message);
            conditions.no(kind::FAILED, "NotFailed", "see the condition Complete".to_owned());
        }
        Phase::Failed { failure, .. } => {
            let message = "see the condition Failed".to_owned();
            conditions.no(kind::COMPLETE, "NotComplete", message);
            conditions.yes_of(generation, kind::FAILED, &failure.reason, failure.message.clone());
        }
        Phase::Pending(_)
        | Phase::Starting(_)
        | Phase::Running(_)
        | Phase::Degraded
        | Phase::Ending
        | Phase::Suspending
        | Phase::Suspended => {
            let message = || "the MiniCluster has not finished".to_owned();
            conditions.no(kind::COMPLETE, "NotFinished", message());
            conditions.no(kind::FAILED, "NotFinished", message());
        }
    }
}

/// Reason and message of a good end.
fn success(facts: &Facts<'_>) -> (String, String) {
    if let Some(run) = facts.plan.mode.ended() {
        return (run.reason.clone(), run.message.clone());
    }
    let (reason, message) = if facts.plan.interactive {
        ("ShutDown", "the instance was shut down")
    } else {
        ("CommandSucceeded", "the command ended with exit code 0")
    };
    (reason.to_owned(), message.to_owned())
}
