//! What the user is told, as a function of what was observed.

mod conditions;
mod end;
mod pod;
#[cfg(test)]
mod tests;

pub use conditions::{CALM_REASONS, kind};

use super::observe::{Observed, Trouble};
use crate::cluster::{Cluster, Violations};
use crate::crd::{MiniCluster, MiniClusterStatus, State, TimelineEntry};
use conditions::Conditions;
use end::{Phase, phase};
use flux_contract::labels;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use pod::PodView;

/// The status of an accepted MiniCluster.
///
/// `now` is used for conditions that flip; everything else follows from the arguments, so that
/// the same observation gives the same status and nothing is written twice.
pub fn status(
    old: Option<&MiniClusterStatus>,
    cluster: &Cluster,
    observed: &Observed,
    now: Time,
) -> MiniClusterStatus {
    if observed.job.is_none()
        && observed.trouble.is_none()
        && let Some(old) = old.filter(|old| finished_generation(old) == Some(observed.generation))
    {
        // The Job was deleted after it had finished. What is known of the run is all there is.
        return MiniClusterStatus { observed_generation: Some(observed.generation), ..old.clone() };
    }
    let lead = observed.lead.as_ref().map(|pod| PodView::new(pod, cluster.name.as_str()));
    let phase = phase(cluster, observed, lead.as_ref());
    let job_status = observed.job.as_ref().and_then(|job| job.status.clone()).unwrap_or_default();
    let record = Record::of(old, &phase, &job_status, lead.as_ref());
    let brokers = Brokers {
        ready: if phase.is_over() { 0 } else { job_status.ready.unwrap_or_default() },
        size: observed.job.as_ref().and_then(size).unwrap_or_default(),
    };
    MiniClusterStatus {
        size: brokers.size,
        selector: selector(cluster.name.as_str()),
        jobid: String::new(),
        maximum_size: i32::try_from(observed.maximum_size).unwrap_or(i32::MAX),
        state: Some(phase.state()),
        ready_brokers: brokers.ready,
        exit_code: record.exit_code,
        start_time: job_status.start_time,
        completion_time: phase.ended_at(),
        observed_generation: Some(observed.generation),
        conditions: conditions(old, cluster, observed, &phase, &brokers, now),
        timeline: record.timeline,
    }
}

/// The status of a MiniCluster whose specification was refused. What is known of a run that began
/// with an earlier specification stays.
pub fn invalid(
    old: Option<&MiniClusterStatus>,
    name: &str,
    generation: i64,
    violations: &Violations,
    now: Time,
) -> MiniClusterStatus {
    let mut conditions = Conditions::new(old, generation, now);
    conditions.no(kind::ACCEPTED, "Invalid", violations.to_string());
    if old.is_none_or(|old| finished_generation(old).is_none()) {
        conditions.no(kind::PROGRESSING, "Invalid", "the specification was refused".to_owned());
    }
    let old = old.cloned().unwrap_or_default();
    let running = old.start_time.is_some();
    MiniClusterStatus {
        selector: selector(name),
        state: if running { old.state } else { Some(State::Invalid) },
        observed_generation: Some(generation),
        conditions: conditions.merged_over(&old.conditions),
        ..old
    }
}

/// The status of a MiniCluster the look at which was interrupted: what is known stays, and why no more
/// is known is added.
pub fn interrupted(cluster: &MiniCluster, trouble: &Trouble, now: Time) -> MiniClusterStatus {
    let old = cluster.status.as_ref();
    let generation = cluster.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(old, generation, now);
    conditions.no(kind::PROGRESSING, trouble.reason, trouble.message.clone());
    let old = old.cloned().unwrap_or_default();
    MiniClusterStatus {
        selector: selector(&cluster.name_any()),
        state: old.state.or(Some(State::Pending)),
        conditions: conditions.merged_over(&old.conditions),
        ..old
    }
}

/// The generation that the finished run belongs to, if there is one: a run is not repeated for it.
pub fn finished_generation(status: &MiniClusterStatus) -> Option<i64> {
    let over = |condition: &&Condition| {
        condition.status == "True" && [kind::COMPLETE, kind::FAILED].contains(&&*condition.type_)
    };
    status.conditions.iter().find(over).and_then(|condition| condition.observed_generation)
}

/// Label selector of the pods for autoscalers.
fn selector(name: &str) -> String {
    format!("{}={name}", labels::HPA_SELECTOR)
}

fn size(job: &Job) -> Option<i32> {
    job.spec.as_ref().and_then(|spec| spec.parallelism)
}

/// Brokers that are ready, of how many.
struct Brokers {
    ready: i32,
    size: i32,
}

/// What is known of the lead's run.
struct Record {
    exit_code: Option<i32>,
    timeline: Vec<TimelineEntry>,
}

impl Record {
    /// From the lead's pod; from the old status where the pod is gone and the run is the same.
    fn of(
        old: Option<&MiniClusterStatus>,
        phase: &Phase,
        job: &JobStatus,
        lead: Option<&PodView<'_>>,
    ) -> Self {
        let old = old.filter(|old| old.start_time.is_some() && old.start_time == job.start_time);
        let ended = lead.and_then(|lead| lead.ended.as_ref());
        let Some(ended) = ended.filter(|_| lead.is_some_and(|lead| lead.over) || phase.is_over())
        else {
            let kept = if lead.is_none() || phase.is_over() { old } else { None };
            // A complete Job has a lead that ended well, whether its pod is still there or not.
            let complete = matches!(phase, Phase::Complete { .. }).then_some(0);
            return Self {
                exit_code: kept.and_then(|old| old.exit_code).or(complete),
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

fn conditions(
    old: Option<&MiniClusterStatus>,
    cluster: &Cluster,
    observed: &Observed,
    phase: &Phase,
    brokers: &Brokers,
    now: Time,
) -> Vec<Condition> {
    let mut conditions = Conditions::new(old, observed.generation, now);
    accepted(&mut conditions, cluster);
    progressing(&mut conditions, observed, phase, brokers);
    ready(&mut conditions, phase, brokers);
    match phase {
        Phase::Suspended => {
            conditions.yes(kind::SUSPENDED, "JobSuspended", "the Job is suspended".to_owned());
        }
        Phase::Pending(_)
        | Phase::Starting(_)
        | Phase::Running(_)
        | Phase::Ending
        | Phase::Complete { .. }
        | Phase::Failed { .. } => {
            conditions.no(kind::SUSPENDED, "NotSuspended", String::new());
        }
    }
    ended(&mut conditions, observed, phase);
    conditions.into_list()
}

fn accepted(conditions: &mut Conditions, cluster: &Cluster) {
    if cluster.not_acted_on.is_empty() {
        conditions.yes(kind::ACCEPTED, "Accepted", "the specification is valid".to_owned());
    } else {
        let fields = cluster.not_acted_on.join(", ");
        let message = format!("valid, but this version does not act on: {fields}");
        conditions.yes(kind::ACCEPTED, "FieldsNotActedOn", message);
    }
}

fn progressing(conditions: &mut Conditions, observed: &Observed, phase: &Phase, brokers: &Brokers) {
    let Brokers { ready, size } = brokers;
    if let Some(trouble) = &observed.trouble {
        return conditions.no(kind::PROGRESSING, trouble.reason, trouble.message.clone());
    }
    if !observed.refused.is_empty() && !phase.is_over() {
        let fields = observed.refused.join(", ");
        let message = format!(
            "cannot be changed while the Job exists: {fields}; delete and create the MiniCluster"
        );
        return conditions.no(kind::PROGRESSING, "ChangeRefused", message);
    }
    if let Some(refusal) = observed.pods_refused.as_ref().filter(|_| !phase.is_over()) {
        return conditions.no(kind::PROGRESSING, "PodsRefused", refusal.clone());
    }
    match phase {
        Phase::Pending(None) | Phase::Starting(None) if services_wait(observed).is_some() => {
            let waiting = services_wait(observed).unwrap_or_default();
            conditions.yes(kind::PROGRESSING, "Waiting", waiting);
        }
        Phase::Pending(Some(waiting)) | Phase::Starting(Some(waiting)) => {
            conditions.yes(kind::PROGRESSING, "Waiting", waiting.clone());
        }
        Phase::Pending(None) => {
            conditions.yes(kind::PROGRESSING, "Starting", "waiting for the lead's pod".to_owned());
        }
        Phase::Starting(None) => {
            let message = format!("{ready} of {size} brokers are ready");
            conditions.yes(kind::PROGRESSING, "Starting", message);
        }
        Phase::Ending => {
            let message = "waiting for the rest of the pods to end".to_owned();
            conditions.yes(kind::PROGRESSING, "Ending", message);
        }
        Phase::Running(_) => {
            conditions.no(kind::PROGRESSING, "Running", "the command can run".to_owned());
        }
        Phase::Suspended => {
            conditions.no(kind::PROGRESSING, "Suspended", "the Job is suspended".to_owned());
        }
        Phase::Complete { .. } | Phase::Failed { .. } => {
            conditions.no(kind::PROGRESSING, "Finished", "the Job has finished".to_owned());
        }
    }
}

/// What keeps the services pod from running, if there is one and it does not.
fn services_wait(observed: &Observed) -> Option<String> {
    observed.services.as_ref().and_then(|pod| PodView::new(pod, "").waiting)
}

fn ready(conditions: &mut Conditions, phase: &Phase, brokers: &Brokers) {
    let Brokers { ready, size } = brokers;
    let message = format!("{ready} of {size} brokers are ready");
    match phase {
        Phase::Running(failed) => {
            // The Job counts its ready pods a moment later: the number would be too small.
            let failed = failed.iter().map(|failed| format!("; but its {failed}"));
            let message = "the lead is ready: the quorum is there".to_owned();
            conditions.yes(kind::READY, "QuorumReached", message + &failed.collect::<String>());
        }
        Phase::Pending(_) | Phase::Starting(_) => conditions.no(kind::READY, "Starting", message),
        Phase::Suspended => conditions.no(kind::READY, "Suspended", message),
        Phase::Ending | Phase::Complete { .. } | Phase::Failed { .. } => {
            conditions.no(kind::READY, "Finished", "the lead has ended".to_owned());
        }
    }
}

fn ended(conditions: &mut Conditions, observed: &Observed, phase: &Phase) {
    // The run belongs to the specification it was started from, not to a later one.
    let generation = end::generation(observed);
    match phase {
        Phase::Complete { .. } => {
            let message = "the command ended with exit code 0".to_owned();
            conditions.at(generation).yes(kind::COMPLETE, "CommandSucceeded", message);
            conditions.no(kind::FAILED, "Completed", String::new());
        }
        Phase::Failed { failure, .. } => {
            conditions.no(kind::COMPLETE, "Failed", String::new());
            conditions.at(generation).yes(kind::FAILED, &failure.reason, failure.message.clone());
        }
        Phase::Pending(_)
        | Phase::Starting(_)
        | Phase::Running(_)
        | Phase::Ending
        | Phase::Suspended => {
            conditions.no(kind::COMPLETE, "NotFinished", String::new());
            conditions.no(kind::FAILED, "NotFinished", String::new());
        }
    }
}
