//! The status, as a function of what was observed.

mod asked_for;
mod brokers;
mod conditions;
mod facts;
mod kstatus;
mod lead_replaced;
mod measured;
mod phase;
mod pod;
mod progressing;
mod result;
#[cfg(test)]
mod tests;

pub(super) use conditions::{SETTLED_REASONS, kind};
pub(super) use facts::Facts;
pub(super) use measured::{change, summary};

use super::decide::mode::Mode;
use super::decide::queue::queue;
use super::decide::suspension::{is_idle, was_taken};
use super::error::Error;
use super::job_ext::{self, noted_suspension};
use brokers::Brokers;
use conditions::Conditions;
use flux_api::crd::{MiniCluster, MiniClusterStatus, State, TimelineEntry};
use flux_contract::labels;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use phase::{Phase, phase};
use pod::PodView;

/// The status of the MiniCluster called `name`. `now` is used for conditions that flip and for how long something has
/// lasted; everything else follows from the arguments, so that the same facts give the same status and nothing is
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
    let (exit_code, timeline) = record(old_run, &phase, facts, lead.as_ref());
    let result = result::result(old_run, name, facts, &phase, lead.as_ref(), exit_code, &now);
    let brokers = Brokers::of(facts, &phase, old_run);
    let replaced = lead_replaced::replaced(facts, name, lead.as_ref(), &now);
    let mut list = Conditions::new(old, facts.plan.generation, now);
    accepted(&mut list, facts);
    progressing::progressing(&mut list, facts, &phase, &brokers, replaced.as_deref());
    ready(&mut list, facts, &phase, &brokers, lead.as_ref());
    suspended(&mut list, &phase, facts);
    ended(&mut list, facts, &phase);
    asked_for::autoscaling(&mut list, facts, &phase);
    asked_for::rest(&mut list, facts, &phase);
    kstatus::kstatus(&mut list, facts, &phase);
    let conditions = list.into_list();
    MiniClusterStatus {
        size: brokers.size,
        selector: selector(name),
        jobid: jobid(old_run, lead.as_ref()),
        maximum_size: facts.plan.maximum_size.map_or_else(
            || old.map(|old| old.maximum_size).unwrap_or_default(),
            |size| i32::try_from(size).unwrap_or(i32::MAX),
        ),
        state: Some(phase.state),
        reason: reason(phase.state, &conditions),
        ready_brokers: brokers.ready,
        exit_code,
        result,
        start_time,
        completion_time: phase.end.and_then(|end| end.at),
        observed_generation: Some(facts.plan.generation),
        conditions,
        // The Job says so; when it is gone, the status of its run does.
        install: (facts.plan.install.clone())
            .or_else(|| old_run.and_then(|old| old.install.clone())),
        timeline,
    }
}

/// The status of a MiniCluster whose reconcile was interrupted: the old one, and why no more is known.
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

/// The reason of the condition that says most about `state`.
fn reason(state: State, conditions: &[Condition]) -> Option<String> {
    let type_ = state.telling_condition();
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some(condition.reason.clone())
}

fn start_time(facts: &Facts<'_>) -> Option<Time> {
    let ended = facts.plan.mode.ended().and_then(|run| run.start_time.as_ref());
    facts.live.job.as_ref().and_then(job_ext::start_time).or(ended).cloned()
}

fn selector(name: &str) -> String {
    format!("{}={name}", labels::HPA_SELECTOR)
}

/// Exit code and timeline of the lead's run: from its pod; from the note of the end, or the old status of the same
/// run, where the pod is gone.
fn record(
    old_run: Option<&MiniClusterStatus>,
    phase: &Phase,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
) -> (Option<i32>, Vec<TimelineEntry>) {
    let is_over = phase.end.is_some();
    let ended = lead.filter(|lead| lead.over || is_over).and_then(|lead| lead.ended.as_ref());
    let Some(ended) = ended else {
        let kept = old_run.filter(|_| lead.is_none() || is_over);
        // A complete Job has a lead that ended well, whether its pod is still there or not.
        let complete = (phase.state == State::Complete).then_some(0);
        let noted = facts.plan.mode.ended().and_then(|run| run.end.as_ref()?.exit_code);
        let exit_code = noted.or_else(|| kept.and_then(|old| old.exit_code)).or(complete);
        let exit_code =
            exit_code.or_else(|| facts.live.job.as_ref().and_then(pod::exit_code_of_lost_lead));
        return (exit_code, kept.map(|old| old.timeline.clone()).unwrap_or_default());
    };
    let phases = ended.message.iter().flat_map(|message| &message.phases);
    let milliseconds = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let timeline = phases.take(64).map(|phase| TimelineEntry {
        name: phase.name.clone(),
        start_milliseconds: milliseconds(phase.start_milliseconds),
        duration_milliseconds: milliseconds(phase.duration_milliseconds),
    });
    (Some(ended.exit_code), timeline.collect())
}

/// Flux's id of the command's job: from the lead's pod, or the old status of the same run.
fn jobid(old_run: Option<&MiniClusterStatus>, lead: Option<&PodView<'_>>) -> String {
    let told = lead.and_then(|lead| result::jobid(lead.ended.as_ref()?));
    told.or_else(|| old_run.map(|old| old.jobid.clone())).unwrap_or_default()
}

fn accepted(conditions: &mut Conditions, facts: &Facts<'_>) {
    if let Some(violations) = &facts.plan.violations {
        return conditions.no(kind::ACCEPTED, "Invalid", violations.to_string());
    }
    let (mut reason, mut remarks) = ("Accepted", Vec::new());
    for (found, remark) in [
        (&facts.plan.not_acted_on, "this version does not act on"),
        (&facts.plan.dropped, "the API server has left out of the Job"),
        (&facts.plan.lacking, "the cluster has nothing for"),
    ] {
        if !found.is_empty() {
            reason = "FieldsNotActedOn";
            remarks.push(format!("{remark}: {}", found.join(", ")));
        }
    }
    // Nobody asks for a name once the run is over.
    if facts.plan.mode == Mode::Reconcile && !facts.live.names_taken.is_empty() {
        reason = if remarks.is_empty() { "ServiceNameTaken" } else { reason };
        let taken = facts.live.names_taken.join(", ");
        remarks.push(format!(
            "another object of the namespace has the name of the Service {taken}: the sidecar is \
             reached by its long name, <MiniCluster>-<sidecar>, alone"
        ));
    }
    if !facts.live.names_refused.is_empty() {
        reason = if remarks.is_empty() { "ServiceRefused" } else { reason };
        let refused = facts.live.names_refused.join("; ");
        remarks.push(format!(
            "a sidecar is reached by its long name, <MiniCluster>-<sidecar>, alone, and the short one is tried \
             again every minute: {refused}"
        ));
    }
    let message = if remarks.is_empty() {
        "the specification is valid".to_owned()
    } else {
        format!("valid, but {}", remarks.join("; "))
    };
    conditions.yes(kind::ACCEPTED, reason, message);
}

/// Sets `Ready`, unless it is suspended as it is to be: then nobody waits for it.
fn ready(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    phase: &Phase,
    brokers: &Brokers,
    lead: Option<&PodView<'_>>,
) {
    let reason = match phase.state {
        State::Running => {
            let failed = lead.and_then(PodView::failed_container);
            let failed = failed.map(|failed| format!("; but its {failed}")).unwrap_or_default();
            // Why a pod is not ready, it alone knows.
            let lacking = if brokers.ready < brokers.size {
                format!("; {}: the logs of the other pods say why", brokers.message())
            } else {
                let admitted = brokers.admitted.as_ref();
                admitted.map(|admitted| format!("; {admitted}")).unwrap_or_default()
            };
            let message = format!("the lead is ready: the quorum was reached{lacking}{failed}");
            return conditions.yes(kind::READY, "QuorumReached", message);
        }
        State::Degraded => "LeadNotReady",
        State::Pending | State::Starting => "Starting",
        State::Invalid => "Invalid",
        State::Suspended if is_suspended_as_asked(facts) => return,
        State::Suspended => "Suspended",
        State::Ending if phase.suspending => "Suspended",
        State::Complete => {
            let message = "the run is complete: see the condition Complete";
            return conditions.yes(kind::READY, "Complete", message.to_owned());
        }
        State::Ending | State::Failed => {
            return conditions.no(kind::READY, "Finished", "the lead has ended".to_owned());
        }
    };
    conditions.no(kind::READY, reason, brokers.message());
}

fn suspended(conditions: &mut Conditions, phase: &Phase, facts: &Facts<'_>) {
    if phase.state == State::Suspended {
        let (reason, message) = why_suspended(facts);
        return conditions.yes(kind::SUSPENDED, reason, message);
    }
    let (reason, message) = if phase.suspending {
        ("Suspending", "the Job is suspended, and its pods have not ended yet")
    } else {
        ("NotSuspended", "the Job is not suspended")
    };
    conditions.no(kind::SUSPENDED, reason, message.to_owned());
}

/// True where the specification suspends the Job, or no job needs a pod: nothing comes before somebody asks for it.
fn is_suspended_as_asked(facts: &Facts<'_>) -> bool {
    let job = facts.live.job.as_ref();
    job.is_some_and(|job| noted_suspension(job).is_some())
}

/// Who has suspended the Job, and what it waits for.
fn why_suspended(facts: &Facts<'_>) -> (&'static str, String) {
    let job = facts.live.job.as_ref();
    if let Some((queue, job)) = job.and_then(|job| Some((queue(job)?, job.uid()?))) {
        let message = format!(
            "waits in the queue {queue}; for what: kubectl describe workloads.kueue.x-k8s.io --selector \
             kueue.x-k8s.io/job-uid={job}"
        );
        return (measured::IN_QUEUE, message);
    }
    let (reason, message) = match job.and_then(noted_suspension) {
        Some(note) if is_idle(note) => (
            "Idle",
            "no job needs a pod: `kubectl flux submit` or `kubectl flux resume` starts it again, or a new value of \
             the annotation flux-framework.org/resume",
        ),
        Some(_) => (
            "SuspendedBySpecification",
            "suspended by the specification; spec.suspend: false resumes it",
        ),
        None => ("JobSuspended", "somebody has suspended the Job, and resumes it"),
    };
    (reason, message.to_owned())
}

fn ended(conditions: &mut Conditions, facts: &Facts<'_>, phase: &Phase) {
    for (type_, state, reason, other) in [
        (kind::COMPLETE, State::Complete, "NotComplete", kind::FAILED),
        (kind::FAILED, State::Failed, "NotFailed", kind::COMPLETE),
    ] {
        match &phase.end {
            None => conditions.no(type_, "NotFinished", "the MiniCluster has not finished".into()),
            // The run belongs to the specification it was started from, not to a later one.
            Some(end) if phase.state == state => {
                let generation = phase::generation(facts);
                conditions.yes_of(
                    generation,
                    type_,
                    &end.outcome.reason,
                    end.outcome.message.clone(),
                );
            }
            Some(_) => conditions.no(type_, reason, format!("see the condition {other}")),
        }
    }
}
