//! Computes the status from the live objects and the plan.

mod asked_for;
mod conditions;
mod facts;
mod history;
mod kstatus;
mod measured;
mod progressing;
mod result;

pub(super) use conditions::{SETTLED_REASONS, kind};
pub(super) use facts::Facts;
pub(super) use measured::{change, summary};

use super::error::Error;
use super::job_ext;
use super::observe::lifecycle::{Lifecycle, Suspender, removed_by_suspension};
use super::observe::next_run;
use super::observe::pod_view::{PodView, exit_code_of_lost_lead};
use conditions::Conditions;
use facts::{Brokers, replaced};
use flux_api::crd::{MiniCluster, MiniClusterStatus, Reason, State, TimelineEntry};
use flux_contract::labels;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;

/// The status of the MiniCluster `name`. `now` is used only for new transition times and for durations, so that equal
/// facts give an equal status and no write; `old` only for facts that are no longer in the objects of the run.
pub(super) fn status(
    old: Option<&MiniClusterStatus>,
    name: &str,
    facts: &Facts<'_>,
    now: Time,
) -> MiniClusterStatus {
    let job = facts.live.job.as_ref();
    let state = facts.state();
    // A lead that failed before a suspension, and was replaced, is no end either.
    let removed = |lead: &Pod| {
        state == State::Suspended || job.is_some_and(|job| removed_by_suspension(lead, job))
    };
    let lead = facts.live.pods.lead.as_ref().filter(|lead| !removed(lead));
    let lead = lead.map(|pod| PodView::new(pod, name, &now));
    let start_time = start_time(facts);
    let old_run = old.filter(|old| old.start_time.is_some() && old.start_time == start_time);
    let (exit_code, timeline) = record(old_run, facts, lead.as_ref());
    let result = result::result(old_run, name, facts, lead.as_ref(), exit_code, &now);
    let brokers = Brokers::of(facts, old_run);
    let replaced = replaced(facts, name, lead.as_ref(), &now);
    let mut list = Conditions::new(old, facts.answered_generation(), now);
    accepted(&mut list, facts);
    progressing::progressing(&mut list, facts, &brokers, lead.as_ref(), replaced.as_deref());
    ready(&mut list, facts, &brokers, lead.as_ref());
    suspended(&mut list, facts);
    ended(&mut list, facts);
    asked_for::autoscaling(&mut list, facts);
    asked_for::instance_api(&mut list, facts);
    kstatus::kstatus(&mut list, facts);
    let conditions = list.into_list();
    let status = MiniClusterStatus {
        size: brokers.size,
        selector: selector(name),
        jobid: jobid(old_run, lead.as_ref()),
        maximum_size: facts.plan.maximum_size.map_or_else(
            || old.map(|old| old.maximum_size).unwrap_or_default(),
            |size| i32::try_from(size).unwrap_or(i32::MAX),
        ),
        state: Some(state),
        reason: reason(state, &conditions),
        ready_brokers: brokers.ready,
        exit_code,
        result,
        run_id: run_id(facts),
        start_time,
        completion_time: facts.end().and_then(|end| end.at.clone()),
        observed_generation: Some(facts.answered_generation()),
        conditions,
        // The Job has the method; after the Job is deleted, the old status of the run has it.
        install: (facts.plan.install.clone())
            .or_else(|| old_run.and_then(|old| old.install.clone())),
        timeline,
        history: Vec::new(),
    };
    MiniClusterStatus { history: history::history(old, &status), ..status }
}

/// The status of a MiniCluster whose reconcile was interrupted: the old one with `error` in `Progressing`.
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

fn reason(state: State, conditions: &[Condition]) -> Option<String> {
    let type_ = state.summary_condition();
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some(condition.reason.clone())
}

fn start_time(facts: &Facts<'_>) -> Option<Time> {
    let ended = facts.live.lifecycle.record().and_then(|run| run.start_time.as_ref());
    facts.live.job.as_ref().and_then(job_ext::start_time).or(ended).cloned()
}

fn run_id(facts: &Facts<'_>) -> Option<String> {
    let ended = || facts.live.lifecycle.record()?.run_id.as_deref();
    facts.live.job.as_ref().map_or_else(ended, next_run::run_id).map(str::to_owned)
}

fn selector(name: &str) -> String {
    format!("{}={name}", labels::HPA_SELECTOR)
}

/// Exit code and timeline of the lead's run: from its pod, else from the record of the end or the old status.
fn record(
    old_run: Option<&MiniClusterStatus>,
    facts: &Facts<'_>,
    lead: Option<&PodView<'_>>,
) -> (Option<i32>, Vec<TimelineEntry>) {
    let is_over = facts.end().is_some();
    let ended = lead.filter(|lead| lead.over || is_over).and_then(|lead| lead.ended.as_ref());
    let Some(ended) = ended else {
        let kept = old_run.filter(|_| lead.is_none() || is_over);
        // The lead of a complete Job ended with 0, even if its pod is gone.
        let complete = facts.end().is_some_and(|end| end.complete).then_some(0);
        let noted = facts.live.lifecycle.record().and_then(|run| run.end.as_ref()?.exit_code);
        let exit_code = noted.or_else(|| kept.and_then(|old| old.exit_code)).or(complete);
        let exit_code =
            exit_code.or_else(|| facts.live.job.as_ref().and_then(exit_code_of_lost_lead));
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

/// Flux's id of the command's job, from the lead's pod or the old status of the same run.
fn jobid(old_run: Option<&MiniClusterStatus>, lead: Option<&PodView<'_>>) -> String {
    let of_pod = lead.and_then(|lead| result::jobid(lead.ended.as_ref()?));
    of_pod.or_else(|| old_run.map(|old| old.jobid.clone())).unwrap_or_default()
}

fn accepted(conditions: &mut Conditions, facts: &Facts<'_>) {
    if let Some(violations) = &facts.plan.violations {
        return conditions.no(kind::ACCEPTED, Reason::Invalid, violations.to_string());
    }
    let (mut reason, mut remarks) = (Reason::Accepted, Vec::new());
    for (found, remark) in [
        (&facts.plan.not_acted_on, "this version ignores"),
        (&facts.plan.dropped, "the API server dropped from the Job"),
        (&facts.plan.lacking, "the cluster does not support"),
    ] {
        if !found.is_empty() {
            reason = Reason::FieldsNotActedOn;
            remarks.push(format!("{remark}: {}", found.join(", ")));
        }
    }
    if !facts.plan.deferred.is_empty() && facts.end().is_none() {
        let deferred = facts.plan.deferred.join(", ");
        remarks
            .push(format!("the next run, which begins when this one has ended, takes: {deferred}"));
    }
    // A finished run needs no aliases, and one of another operator is left as it is.
    let needs_aliases = !facts.live.lifecycle.is_over() && facts.live.foreign.is_none();
    if needs_aliases && !facts.live.alias_conflicts.is_empty() {
        reason = if remarks.is_empty() { Reason::ServiceNameTaken } else { reason };
        let aliases = facts.live.alias_conflicts.join(", ");
        remarks.push(format!(
            "another object in the namespace has the name of the Service {aliases}: the sidecar is \
             reached only by its long name, <MiniCluster>-<sidecar>"
        ));
    }
    if !facts.live.refused_aliases.is_empty() {
        reason = if remarks.is_empty() { Reason::ServiceRefused } else { reason };
        let refused = facts.live.refused_aliases.join("; ");
        remarks.push(format!(
            "the API server refuses the Service with a sidecar's short name, which is tried again every minute; the \
             sidecar is reached only by its long name, <MiniCluster>-<sidecar>: {refused}"
        ));
    }
    let message = if remarks.is_empty() {
        "the specification is valid".to_owned()
    } else {
        format!("valid, but {}", remarks.join("; "))
    };
    conditions.yes(kind::ACCEPTED, reason, message);
}

/// Sets `Ready`, except for a MiniCluster that is suspended as requested, for which nobody waits.
fn ready(
    conditions: &mut Conditions,
    facts: &Facts<'_>,
    brokers: &Brokers,
    lead: Option<&PodView<'_>>,
) {
    let reason = match &facts.live.lifecycle {
        Lifecycle::Running => {
            let failed = lead.and_then(PodView::failed_container);
            let failed = failed.map(|failed| format!("; but its {failed}")).unwrap_or_default();
            // Only the log of a pod shows why it is not ready.
            let lacking = if brokers.ready < brokers.size {
                format!("; {}: the logs of the other pods show why", brokers.message())
            } else {
                let admitted = brokers.admitted.as_ref();
                admitted.map(|admitted| format!("; {admitted}")).unwrap_or_default()
            };
            let message = format!("the lead is ready: the quorum was reached{lacking}{failed}");
            return conditions.yes(kind::READY, Reason::QuorumReached, message);
        }
        Lifecycle::Degraded => Reason::LeadNotReady,
        Lifecycle::New if facts.plan.violations.is_some() => Reason::Invalid,
        Lifecycle::New | Lifecycle::Pending | Lifecycle::Starting => Reason::Starting,
        Lifecycle::Suspended(Suspender::Specification | Suspender::Idle) => return,
        Lifecycle::Suspended(_) | Lifecycle::Suspending => Reason::Suspended,
        Lifecycle::Ended(end) if end.complete => {
            let message = "the run is complete: see the condition Complete";
            return conditions.yes(kind::READY, Reason::Complete, message.to_owned());
        }
        Lifecycle::Ending | Lifecycle::Failing | Lifecycle::Ended(_) => {
            return conditions.no(kind::READY, Reason::Finished, "the lead has ended".to_owned());
        }
    };
    conditions.no(kind::READY, reason, brokers.message());
}

fn suspended(conditions: &mut Conditions, facts: &Facts<'_>) {
    let lifecycle = &facts.live.lifecycle;
    let (holds, reason, message) = if let Lifecycle::Suspended(suspender) = lifecycle {
        let (reason, message) = why_suspended(suspender, facts);
        (true, reason, message)
    } else if *lifecycle == Lifecycle::Suspending {
        let message = "the Job is suspended, and its pods have not ended yet";
        (false, Reason::Suspending, message.to_owned())
    } else {
        (false, Reason::NotSuspended, "the Job is not suspended".to_owned())
    };
    conditions.set(kind::SUSPENDED, holds, reason, message);
}

/// Reason and message of `Suspended`: which actor has suspended the Job, and what the Job waits for.
fn why_suspended(suspender: &Suspender, facts: &Facts<'_>) -> (Reason, String) {
    let (reason, message) = match suspender {
        Suspender::Queue(queue) => {
            let job = facts.live.job.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
            let message = format!(
                "waits in the queue {queue}; kubectl describe workloads.kueue.x-k8s.io --selector \
                 kueue.x-k8s.io/job-uid={job} shows for what"
            );
            return (Reason::InQueue, message);
        }
        Suspender::Idle => (
            Reason::Idle,
            "no job needs a pod: `kubectl flux submit` or `kubectl flux resume` starts it again, or a new value of \
             the annotation flux-framework.org/resume",
        ),
        Suspender::Specification => (
            Reason::SuspendedBySpecification,
            "suspended by the specification; spec.suspend: false resumes it",
        ),
        Suspender::Other => {
            (Reason::JobSuspended, "a person or a program suspended the Job, and has to resume it")
        }
    };
    (reason, message.to_owned())
}

fn ended(conditions: &mut Conditions, facts: &Facts<'_>) {
    for (type_, complete, reason, other) in [
        (kind::COMPLETE, true, Reason::NotComplete, kind::FAILED),
        (kind::FAILED, false, Reason::NotFailed, kind::COMPLETE),
    ] {
        match facts.end() {
            None => {
                let message = "the MiniCluster has not finished".to_owned();
                conditions.no(type_, Reason::NotFinished, message);
            }
            // The end belongs to the generation that the run was started from, not to a later one.
            Some(end) if end.complete == complete => {
                let (generation, outcome) = (facts.generation(), end.outcome.clone());
                conditions.yes_of(generation, type_, &outcome.reason, outcome.message);
            }
            Some(_) => conditions.no(type_, reason, format!("see the condition {other}")),
        }
    }
}
